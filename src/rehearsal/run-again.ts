import type { ClonePlace } from '../clone/own-sessions.ts';
import { commandWithoutSecrets } from '../command/command-secrets.ts';
import type { CommandResult } from '../command/run-command.ts';
import { inPhase } from '../events.ts';
import { countsAgainst } from '../hazards/extra-runs.ts';
import { refersTo } from '../hazards/policy.ts';
import { measured } from '../measured.ts';
import type {
  Caveat,
  FurtherRunSection,
  SchemaSection,
  StatementSection,
  TargetConnection,
} from '../model/report.ts';
import { type Contents, compareContents } from '../observe/checks/contents.ts';
import { type Aim, aimAtAfter, aimAtBefore, type SchemaResult } from '../observe/checks/schema-again.ts';
import { givenRelations } from '../observe/relation-names.ts';
import { contentsOf, inCloneForContents } from './clone-again.ts';
import {
  type CloneRun,
  type CloneSetup,
  type LocatedCommand,
  openWire,
  runThroughWire,
} from './run-on-clone.ts';

// What follows the migration on its clone if the user asked for it: the command once more (--rerun), then the command that
// undoes it (--down).

export interface ExtraCommands {
  /** The migration command. */
  readonly command: LocatedCommand;
  /** null if none was given. */
  readonly down: LocatedCommand | null;
}

/** What the clone's tables held before the migration, for --down. */
export interface ContentsBefore {
  /** null if it is not needed, or could not be read. */
  readonly contents: Contents | null;
  readonly caveats: readonly Caveat[];
}

export interface ExtraRuns {
  readonly rerun: FurtherRunSection | null;
  readonly down: FurtherRunSection | null;
  /** Every further run of a command that was begun. */
  readonly runs: readonly CloneRun[];
  readonly statements: readonly StatementSection[];
  readonly caveats: readonly Caveat[];
}

type ExtraRun = 'rerun' | 'down';

/** One further run: its section, or the limit that says why there is none. */
interface Attempt {
  readonly section: FurtherRunSection | null;
  readonly run: CloneRun | null;
  readonly statements: readonly StatementSection[];
  readonly caveats: readonly Caveat[];
}

const NOT_ASKED: Attempt = { section: null, run: null, statements: [], caveats: [] };

/** Reads what --down has to restore. What cannot be read does not end the run: the caveats say why. */
export async function readContentsBefore(
  setup: ClonePlace,
  { down }: Pick<ExtraCommands, 'down'>,
): Promise<ContentsBefore> {
  if (!down) return { contents: null, caveats: [] };
  const caveats: Caveat[] = [];
  const contents = await measured(caveats, 'down', () => contentsOf(setup));
  return { contents, caveats };
}

/**
 * Runs what was asked for. What could not be done ends neither the run nor the other of the two: the caveats say why.
 * @param migration its first run, and what it did to the schema; null if that could not be compared.
 */
export async function runAgain(
  setup: CloneSetup,
  { command, down }: ExtraCommands,
  before: ContentsBefore,
  migration: { readonly result: CommandResult; readonly schema: SchemaSection | null },
): Promise<ExtraRuns> {
  const rerun = setup.plan.checks.rerun ? await rerunCommand(setup, command, migration) : NOT_ASKED;
  const contacts = contactsOf([rerun]);
  const undone =
    down && before.contents
      ? await runDown(setup, down, before.contents, whyNot(setup, migration.result, contacts))
      : NOT_ASKED;
  return {
    rerun: rerun.section,
    down: undone.section,
    runs: [rerun, undone].flatMap(({ run }) => run ?? []),
    statements: [...rerun.statements, ...undone.statements],
    caveats: [...before.caveats, ...rerun.caveats, ...undone.caveats],
  };
}

const contactsOf = (attempts: readonly Attempt[]) =>
  attempts.flatMap(({ run }) => run?.targetConnections ?? []);

/** What a further run should lead to. */
interface Expected {
  readonly aim: Aim;
  readonly contents: Contents;
}

async function rerunCommand(
  setup: CloneSetup,
  command: LocatedCommand,
  { result, schema }: { readonly result: CommandResult; readonly schema: SchemaSection | null },
): Promise<Attempt> {
  return attemptRun(setup, 'rerun', command, async () => {
    refuseIf(whyNot(setup, result, []));
    const contents = await contentsOf(setup);
    const aim = await inCloneForContents(setup, (session) => aimAtAfter(session, setup.schema, schema));
    return { contents, aim };
  });
}

function runDown(
  setup: CloneSetup,
  down: LocatedCommand,
  contents: Contents,
  obstacle: string | null,
): Promise<Attempt> {
  return attemptRun(setup, 'down', down, async () => {
    refuseIf(obstacle);
    return { contents, aim: aimAtBefore(setup.schema) };
  });
}

function refuseIf(reason: string | null): void {
  if (reason !== null) throw new Error(reason);
}

/** Runs a command through a proxy of its own, and compares what it left with what it should have left. */
function attemptRun(
  setup: CloneSetup,
  path: ExtraRun,
  command: LocatedCommand,
  expect: () => Promise<Expected>,
): Promise<Attempt> {
  const work = async (): Promise<Attempt> => {
    const caveats: Caveat[] = [];
    const began = await measured(caveats, path, async () => {
      const expected = await expect();
      return { expected, run: await runOnce(setup, command) };
    });
    if (!began) return { ...NOT_ASKED, caveats };
    const { expected, run } = began;
    caveats.push(...run.caveats);
    const statements = await measured(caveats, path, () => statementsOf(setup, run));
    if (!statements) return { ...NOT_ASKED, run, caveats };
    const ignored = path === 'rerun' ? setup.plan.checks.rerunIgnore : [];
    const compared = await measured(caveats, path, () => compareRun(setup, expected, ignored));
    if (!compared) return { section: null, run, statements, caveats };
    const words = commandWithoutSecrets(command.input.argv, command.logins.logins);
    const section = sectionOf(run.result, {
      // Of `sh -c` the script alone is what the user gave.
      command: path === 'down' ? (words.at(-1) ?? '') : words.join(' '),
      reachedClone: run.wire.reached(),
      refused: run.gate.refused,
      statements,
      ...compared,
    });
    return { section, run, statements, caveats };
  };
  return inPhase(setup.context.emit, path, work, ({ section }) => section === null);
}

async function runOnce(setup: CloneSetup, command: LocatedCommand): Promise<CloneRun> {
  // Standard output is that of the migration alone.
  const quiet: CloneSetup = {
    ...setup,
    plan: { ...setup.plan, command: { ...setup.plan.command, stdout: 'stderr' } },
  };
  return runThroughWire(quiet, command, await openWire(quiet, command));
}

async function statementsOf(setup: CloneSetup, { wire }: CloneRun): Promise<StatementSection[]> {
  if (setup.plan.signal.aborted) throw new Error(INTERRUPTED);
  const tree = await inCloneForContents(setup, (session) => givenRelations(session, wire.lockedRelations()));
  return (await wire.statements({ tree })).statements;
}

async function compareRun(setup: CloneSetup, { aim, contents }: Expected, ignored: readonly string[]) {
  const schema = await inCloneForContents(setup, (session) => aim.reached(session));
  const now = await contentsOf(setup);
  const compared = compareContents(contents, now);
  const dataDifferences = compared.dataDifferences.map((each) =>
    ignored.some((table) => refersTo(table, each.relation)) ? { ...each, ignored: true } : each,
  );
  return { ...schema, ...compared, dataDifferences };
}

const INTERRUPTED = 'the run was interrupted';

/** Why no further run may follow. */
function whyNot(
  { plan }: CloneSetup,
  { exitCode }: CommandResult,
  targetConnections: readonly TargetConnection[],
): string | null {
  if (plan.signal.aborted) return INTERRUPTED;
  if (targetConnections.length > 0) return 'the second run connected to the target itself';
  return exitCode === 0 ? null : 'the command did not succeed, so that nothing could follow it';
}

type Compared = SchemaResult & ReturnType<typeof compareContents>;

function sectionOf(
  { exitCode, signal, timedOut, durationMs }: CommandResult,
  seen: Compared & Pick<FurtherRunSection, 'command' | 'reachedClone' | 'refused' | 'statements'>,
): FurtherRunSection {
  const against = [
    ...seen.differences.filter(({ bookkeeping }) => !bookkeeping),
    ...seen.dataDifferences.filter(countsAgainst),
  ];
  const compared = seen.schemaEqual !== null;
  const passed = exitCode === 0 && compared && seen.refused.length === 0 && against.length === 0;
  return { ...seen, refused: [...seen.refused], exitCode, signal, timedOut, durationMs, passed };
}
