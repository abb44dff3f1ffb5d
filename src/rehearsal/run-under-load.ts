import { inPhase } from '../events.ts';
import { measured } from '../measured.ts';
import type { LoadSection } from '../model/load-model.ts';
import type { Caveat, SchemaSection, StatementSection } from '../model/report.ts';
import { caveatsOf, findSource, type LoadSource, originOf, rateCaveats, rateOf } from './load-traffic.ts';
import { type LoadedRunOptions, measureUnderLoad } from './measure-under-load.ts';
import type { LoadPlan } from './plan.ts';
import type { RehearsalContext } from './prepare.ts';
import { type CloneRun, type CloneSetup, type OpenGuarded, openWire } from './run-on-clone.ts';

// The command under load, in the order of its steps:
//
//   findSource         the target's transactions are watched for a while, unless a profile, scripts or a command make the load
//   measureUnderLoad   on a fresh clone: the load begins; after the warm-up the command runs, without guardrails, as a migration tool would
//                      run it on production; the load goes on until no session waits; the schema is compared with that of the quiet run
//   measureGuarded     if an apply is to follow: the same on another clone, with its guardrails

/** What the runs under load found; `section` is null if there was none, and `caveats` say why. */
export interface LoadOutcome {
  readonly section: LoadSection | null;
  /** What was played; null if there was no run. */
  readonly source: LoadSource | null;
  /** Names of the tables that were in memory before it. */
  readonly tables: readonly string[];
  /** The command's, and those of --load-command. */
  readonly runs: readonly CloneRun[];
  readonly caveats: readonly Caveat[];
}

export interface LoadRequest {
  /** The schema that the run without load left; null if it is not known. */
  readonly schema: SchemaSection | null;
  /** Of the run without load. */
  readonly statements: readonly StatementSection[];
  /** null: no apply is to follow. */
  readonly openGuarded: OpenGuarded | null;
}

const NOT_ASKED: LoadOutcome = { section: null, source: null, tables: [], runs: [], caveats: [] };

/** Runs the command under load (`--load`). What cannot be done does not end the run: the caveats say why. */
export async function runUnderLoad(
  setup: CloneSetup,
  prepared: RehearsalContext,
  request: LoadRequest,
): Promise<LoadOutcome> {
  const { load } = setup.plan;
  if (!load) return NOT_ASKED;
  return inPhase(
    setup.context.emit,
    'load',
    async () => {
      const runs: CloneRun[] = [];
      const caveats: Caveat[] = [];
      const loaded = await measured(caveats, 'load', () => runAll(setup, prepared, { load, request, runs }));
      return loaded ?? { ...NOT_ASKED, runs, caveats };
    },
    ({ section }) => section === null,
  );
}

async function runAll(
  setup: CloneSetup,
  prepared: RehearsalContext,
  { load, request, runs }: { load: LoadPlan; request: LoadRequest; runs: CloneRun[] },
): Promise<LoadOutcome> {
  const source = await findSource(setup, prepared, load);
  const tables = lockedBy(request.statements);
  const options: LoadedRunOptions = { load, source, quiet: request.schema, tables, runs };
  const { section } = await measureUnderLoad(setup, prepared, options, (loaded, observer) =>
    openWire(loaded, prepared.command, { observer }),
  );
  const guarded = await measureGuarded(setup, prepared, options, request);
  const rate = rateOf(source, load, section.before);
  return {
    section: {
      source: source.kind,
      origin: originOf(source, prepared.profile?.profile ?? null),
      rate,
      ...section,
      guarded: guarded.section,
    },
    source,
    tables,
    runs,
    caveats: [...caveatsOf(source), ...rateCaveats(rate, section.before), ...guarded.caveats],
  };
}

async function measureGuarded(
  setup: CloneSetup,
  prepared: RehearsalContext,
  options: LoadedRunOptions,
  { statements, openGuarded }: LoadRequest,
): Promise<{ section: LoadSection['guarded']; caveats: Caveat[] }> {
  if (!openGuarded) return { section: null, caveats: [] };
  const caveats: Caveat[] = [];
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
