import { inPhase } from '../events.ts';
import { refersTo } from '../hazards/policy.ts';
import { measured } from '../measured.ts';
import type { AtOnceSection, Caveat, SchemaSection } from '../model/report.ts';
import { type Contents, compareEffects } from '../observe/checks/contents.ts';
import type { Observed } from '../proxy/observed.ts';
import { cloneAgain, contentsOf, hasSameSchema } from './clone-again.ts';
import type { ExtraRun } from './extra-run.ts';
import type { RehearsalContext } from './prepare.ts';
import { type CloneRun, type CloneSetup, type OpenWire, openWire, runThroughWire } from './run-on-clone.ts';

/** The state that one run on the first clone began with and left. */
interface OneRun {
  /** null if it was not read. */
  readonly before: Contents | null;
  readonly schema: SchemaSection | null;
}

const DEADLOCK_DETECTED = '40P01';
/** Times and UUIDs differ between any two runs, so that columns of these types do not count. */
const NO_MOMENTS = { moments: 'left out' } as const;

/**
 * Several runs of the command together on a second clone (`--at-once`). What they leave is compared with what one run has left on the
 * first clone.
 */
export const AT_ONCE: ExtraRun = {
  path: 'atOnce',
  isAsked: ({ checks }) => checks.atOnce > 0,
  contents: NO_MOMENTS,
  run: ({ setup, prepared, before, after }) => {
    const one = { before: before.contents.contents.get('atOnce') ?? null, schema: after.observed.schema };
    const work = async () => {
      const runs: CloneRun[] = [];
      const caveats: Caveat[] = [];
      const request = { count: setup.plan.checks.atOnce, one, runs };
      const atOnce = await measured(caveats, 'atOnce', () => runTogether(setup, prepared, request));
      return { sections: { atOnce }, runs, caveats };
    };
    return inPhase(setup.context.emit, 'at-once', work, ({ sections }) => sections.atOnce === null);
  },
};

async function runTogether(
  first: CloneSetup,
  prepared: RehearsalContext,
  { count, one, runs }: { count: number; one: OneRun; runs: CloneRun[] },
): Promise<AtOnceSection> {
  if (one.before === null) throw new Error('the tables were not read before the first run');
  const effect = { before: one.before, after: await contentsOf(first, NO_MOMENTS) };
  const second = await cloneAgain(first, prepared);
  const secondBefore = await contentsOf(second, NO_MOMENTS);
  let deadlocks = 0;
  const observer = (event: Observed) => {
    if (event.type === 'end' && event.outcome.error?.get('C') === DEADLOCK_DETECTED) deadlocks++;
  };
  const wires: OpenWire[] = [];
  for (let index = 0; index < count; index++)
    wires.push(await openWire(second, prepared.command, { observer }));
  const work = wires.map(async (wire) => runs.push(await runThroughWire(second, prepared.command, wire)));
  // All of them have to end, also if one cannot be run.
  const ended = await Promise.allSettled(work);
  for (const each of ended) if (each.status === 'rejected') throw each.reason;
  const schemaEqual = await hasSameSchema(second, one.schema);
  const { dataDifferences, ...compared } = compareEffects(effect, {
    before: secondBefore,
    after: await contentsOf(second, NO_MOMENTS),
  });
  const differences = dataDifferences.filter(
    ({ relation }) => !first.plan.checks.rerunIgnore.some((name) => refersTo(name, relation)),
  );
  return {
    runs: runs.map(({ result: { exitCode, signal, durationMs } }) => ({ exitCode, signal, durationMs })),
    deadlocks,
    schemaEqual,
    dataDifferences: differences,
    ...compared,
    passed:
      runs.every(({ result }) => result.exitCode === 0) &&
      schemaEqual !== false &&
      differences.every(({ bookkeeping }) => bookkeeping),
  };
}
