import { inPhase } from '../events.ts';
import { measured } from '../measured.ts';
import type { LoadSection } from '../model/load-model.ts';
import type { Caveat, StatementSection } from '../model/report.ts';
import type { ExtraResults, ExtraRun, FirstRun } from './extra-run.ts';
import { caveatsOf, findSource, originOf, rateCaveats, rateOf } from './load-traffic.ts';
import { type LoadedRunOptions, measureUnderLoad } from './measure-under-load.ts';
import { type CloneRun, openWire } from './run-on-clone.ts';

// The command under load, in the order of its steps:
//
//   findSource         the target's transactions are watched for a while, unless a profile, scripts or a command make the load
//   measureUnderLoad   on a fresh clone: the load begins; after the warm-up the command runs, without guardrails, as a migration tool would
//                      run it on production; the load goes on until no session waits; the schema is compared with that of the quiet run
//   measureGuarded     if an apply is to follow: the same on another clone, with its guardrails

/** The command under load (`--load`), on clones of its own. */
export const LOAD: ExtraRun = {
  path: 'load',
  isAsked: ({ load }) => load !== null,
  run: (first) => {
    const work = async () => {
      // Those of --load-command are among them.
      const runs: CloneRun[] = [];
      const caveats: Caveat[] = [];
      const loaded = await measured(caveats, 'load', () => runAll(first, runs));
      return { ...loaded, runs, caveats: [...caveats, ...(loaded?.caveats ?? [])] };
    };
    return inPhase(first.setup.context.emit, 'load', work, ({ sections }) => sections === undefined);
  },
};

async function runAll(
  first: FirstRun,
  runs: CloneRun[],
): Promise<Pick<ExtraResults, 'sections' | 'played' | 'caveats'>> {
  const { setup, prepared, after } = first;
  const { load } = setup.plan;
  if (load === null) throw new Error('no load was asked for');
  const source = await findSource(setup, prepared, load);
  const tables = lockedBy(after.seen.statements);
  const options: LoadedRunOptions = { load, source, quiet: after.observed.schema, tables, runs };
  const { section } = await measureUnderLoad(setup, prepared, options, (loaded, observer) =>
    openWire(loaded, prepared.command, { observer }),
  );
  const guarded = await measureGuarded(first, options);
  const rate = rateOf(source, load, section.before);
  const sectionOfLoad: LoadSection = {
    source: source.kind,
    origin: originOf(source, prepared.profile?.profile ?? null),
    rate,
    ...section,
    guarded: guarded.section,
  };
  return {
    sections: { load: sectionOfLoad },
    played: { source, tables },
    caveats: [...caveatsOf(source), ...rateCaveats(rate, section.before), ...guarded.caveats],
  };
}

async function measureGuarded(
  { setup, prepared, after, openGuarded }: FirstRun,
  options: LoadedRunOptions,
): Promise<{ section: LoadSection['guarded']; caveats: Caveat[] }> {
  if (!openGuarded) return { section: null, caveats: [] };
  const caveats: Caveat[] = [];
  const { statements } = after.seen;
  const section = await measured(caveats, 'load.guarded', async () => {
    const guarded = await measureUnderLoad(setup, prepared, options, (loaded, observer) =>
      openGuarded(loaded, prepared.command, { statements, observer }),
    );
    return { ...guarded.section, guardrails: guarded.opened.happened() };
  });
  return { section, caveats };
}

/** Names of the relations that statements locked. */
function lockedBy(statements: readonly StatementSection[]): string[] {
  return [...new Set(statements.flatMap(({ locks }) => (locks ?? []).map(({ relation }) => relation)))];
}
