import { inPhase } from '../events.ts';
import { refersTo } from '../hazards/policy.ts';
import { measured } from '../measured.ts';
import type { AtOnceSection, Caveat } from '../model/report.ts';
import { compareEffects } from '../observe/checks/contents.ts';
import type { Observed } from '../proxy/observed.ts';
import { cloneAgain, contentsOf, hasSameSchema } from './clone-again.ts';
import type { ExtraRun, FirstRun } from './extra-run.ts';
import { type CloneRun, type OpenWire, openWire, runThroughWire } from './run-on-clone.ts';

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
  run: async (first) => {
    const runs: CloneRun[] = [];
    const caveats: Caveat[] = [];
    const read = () => measured(caveats, 'atOnce', () => runTogether(first, runs));
    const atOnce = await inPhase(first.setup.context.emit, 'at-once', read, (done) => done === null);
    return { sections: { atOnce }, runs, caveats };
  },
};

/** @param runs gets each run that was begun: what it did to the target counts, even if the rest fails. */
async function runTogether(
  { setup: first, prepared, before, after }: FirstRun,
  runs: CloneRun[],
): Promise<AtOnceSection> {
  const { atOnce: count, rerunIgnore } = first.plan.checks;
  const firstBefore = before.contents.contents.get('atOnce');
  if (!firstBefore) throw new Error('the tables were not read before the first run');
  const effect = { before: firstBefore, after: await contentsOf(first, NO_MOMENTS) };
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
  const schemaEqual = await hasSameSchema(second, after.observed.schema);
  const { dataDifferences, ...compared } = compareEffects(effect, {
    before: secondBefore,
    after: await contentsOf(second, NO_MOMENTS),
  });
  const differences = dataDifferences.filter(
    ({ relation }) => !rerunIgnore.some((name) => refersTo(name, relation)),
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
