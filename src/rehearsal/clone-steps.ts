import { inClone } from '../clone/own-sessions.ts';
import { inPhase } from '../events.ts';
import { measured } from '../measured.ts';
import type { Caveat } from '../model/report.ts';
import { runChecksAfter, runChecksBefore } from '../observe/checks/check-watch.ts';
import { type CloneObservations, withEffects } from '../observe/clone-observations.ts';
import { CloneWatch } from '../observe/clone-watch.ts';
import type { SeenStatements } from '../observe/command-watch.ts';
import { doubtedRows } from '../observe/doubted-rows.ts';
import { isWorthATrial } from '../observe/effects/write-trials.ts';
import { writtenUnchecked } from '../observe/orphans.ts';
import { probeAfter, probeBefore } from '../observe/probes/probe-watch.ts';
import type { Session } from '../postgres/connection/session.ts';
import { readTargetState } from '../proof/target-state.ts';
import type { AfterCommand, BeforeCommand } from './extra-run.ts';
import { readContentsBefore } from './further-runs.ts';
import { actsUnseen, openGate, readDoubt, readHarmless, readUnknownOnce } from './open-gate.ts';
import { unappliedFiles } from './places/unapplied-files.ts';
import type { RehearsalContext } from './prepare.ts';
import { type CloneRun, type CloneSetup, openSandboxFor, openWire } from './run-on-clone.ts';
import { uninterrupted } from './target-steps.ts';

/** Reads the clone as it is before the command, then the target, and opens the command's way to the clone. */
export function readBefore(
  setup: CloneSetup,
  { questions, command }: RehearsalContext,
): Promise<BeforeCommand> {
  const { context, clone, schema } = setup;
  return inPhase(context.emit, 'before', async () => {
    const watch = new CloneWatch(clone, { ...context, schema });
    const checks = await runChecksBefore(clone, { ...context, ...questions });
    // Before the data is read, so that dead rows of the probes do not count as the command's.
    const readUnknown = readUnknownOnce();
    const probes = await probeBefore({ clone, context }, questions.queries?.queries ?? [], (session) =>
      readDoubt(clone, session, readUnknown),
    );
    const contents = await readContentsBefore(setup);
    const gate = await watch.before((session) =>
      openGate(context, clone, setup.plan.proxy, session, readUnknown),
    );
    const inside = await openSandboxFor(setup.life.scope, setup.sandbox, setup.plan.command);
    const start = await readTargetState(uninterrupted(context));
    const settings = { stdout: setup.plan.command.stdout };
    const open = await openWire(setup, command, { gate, inside, settings });
    return { watch, checks, probes, contents, start, open };
  });
}

/** Reads the clone again, and what the command sent. An interrupted run reads nothing more. */
export function readAfter(
  setup: CloneSetup,
  { questions }: RehearsalContext,
  before: BeforeCommand,
  { wire, gate, result }: CloneRun,
): Promise<AfterCommand> {
  const { plan, context, clone } = setup;
  const { signal: interrupt } = plan;
  return inPhase(context.emit, 'after', async () => {
    const observed = await before.watch.after(wire.lockedRelations(), {
      interrupt,
      procedures: wire.ranCode(),
      rolledBack: wire.rolledBack(),
      unseen: (session) => actsUnseen(context, clone, gate, session),
    });
    const sent = await wire.statements({
      tree: observed.tree,
      data: observed.data,
      made: observed.made,
      searchPath: observed.catalogue.searchPath,
      procedures: observed.procedures,
    });
    const areWritesKnown = observed.caveats.every(({ path }) => path !== 'data.written');
    const doubts = areWritesKnown ? doubtedRows(sent, observed.data) : [];
    const seen = { ...sent, caveats: [...sent.caveats, ...doubts] };
    const options = { ...context, ...questions };
    const checked = await runChecksAfter(clone, options, before.checks, observed.schema, interrupt);
    const readMayRun = (session: Session) => readHarmless(clone, session);
    const asked = interrupt.aborted
      ? observed
      : await before.watch.withAskedEffects(observed, seen, readMayRun);
    const written = await withWriteTrials(setup, asked, before.watch, seen);
    const known = await withUnapplied(setup, written, seen, result.exitCode);
    const counted = await withOrphans(known, before.watch, seen, interrupt);
    const probed = interrupt.aborted ? counted : await withTrials(setup, counted, before, result.durationMs);
    return { observed: probed, seen, checked };
  });
}

/** Adds the results of trials of the command's writes. */
async function withWriteTrials(
  { clone, plan: { signal: interrupt } }: CloneSetup,
  observed: CloneObservations,
  watch: CloneWatch,
  seen: SeenStatements,
): Promise<CloneObservations> {
  if (!isWorthATrial(seen) || interrupt.aborted) return observed;
  const caveats: Caveat[] = [];
  const readMayRun = (session: Session) => readHarmless(clone, session);
  const found = await measured(caveats, 'hazards', () => watch.writeTrials(seen, readMayRun, caveats));
  return withEffects(observed, found ?? {}, caveats);
}

/** Adds the files that the migration tool should have applied, and has not. */
async function withUnapplied(
  { plan, clone, context }: CloneSetup,
  observed: CloneObservations,
  { statements }: SeenStatements,
  exitCode: number | null,
): Promise<CloneObservations> {
  if (exitCode !== 0 || plan.signal.aborted) return observed;
  const texts = statements.map(({ sql }) => sql);
  const caveats: Caveat[] = [];
  const unapplied =
    (await measured(caveats, 'hazards', () =>
      unappliedFiles(texts, plan.command.folder, (use) => inClone({ clone, context }, use)),
    )) ?? [];
  return withEffects(observed, { unapplied }, caveats);
}

/** Adds the rows without a parent, if the command switched the checks of foreign keys off. */
async function withOrphans(
  observed: CloneObservations,
  watch: CloneWatch,
  { parsed }: SeenStatements,
  interrupt: AbortSignal,
): Promise<CloneObservations> {
  const tables = writtenUnchecked(parsed.values(), observed.data);
  if (tables.length === 0 || interrupt.aborted) return observed;
  const caveats: Caveat[] = [];
  const orphans = (await measured(caveats, 'hazards', () => watch.orphans(tables))) ?? [];
  return {
    ...observed,
    catalogue: { ...observed.catalogue, orphans },
    caveats: [...observed.caveats, ...caveats],
  };
}

/** Adds the probes with another result than before the command. */
async function withTrials(
  { clone, context }: CloneSetup,
  observed: CloneObservations,
  { probes: before }: BeforeCommand,
  commandMs: number,
): Promise<CloneObservations> {
  const { schema, data } = observed;
  if (!schema) return observed;
  const options = { commandMs, readDoubt: (session: Session) => readDoubt(clone, session) };
  const { probes, caveats } = await probeAfter({ clone, context }, before, { schema, data }, options);
  return withEffects(observed, { probes }, caveats);
}
