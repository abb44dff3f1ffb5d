import { commandWithoutSecrets } from '../command/command-secrets.ts';
import type { CommandResult } from '../command/run-command.ts';
import { inPhase } from '../events.ts';
import { countsAgainst } from '../hazards/extra-runs.ts';
import { refersTo } from '../hazards/policy.ts';
import { measured } from '../measured.ts';
import type { Caveat, FurtherRunSection, StatementSection, TargetConnection } from '../model/report.ts';
import { type Contents, compareContents } from '../observe/checks/contents.ts';
import { type Aim, aimAtAfter, aimAtBefore, type SchemaResult } from '../observe/checks/schema-again.ts';
import { givenRelations } from '../observe/relation-names.ts';
import { contentsOf, inCloneForContents } from './clone-again.ts';
import type { ExtraResults, ExtraRun, FirstRun } from './extra-run.ts';
import {
  type CloneRun,
  type CloneSetup,
  type LocatedCommand,
  openWire,
  runThroughWire,
} from './run-on-clone.ts';

// The runs that follow the migration on its clone if the user asked for them: the command once more (--rerun), then the command that
// undoes it (--down).

/** One further run: its section, or the caveats that say why there is none. */
interface Attempt extends Pick<ExtraResults, 'runs' | 'statements' | 'caveats'> {
  readonly section: FurtherRunSection | null;
}

/** The command once more. */
export const RERUN: ExtraRun = {
  path: 'rerun',
  isAsked: ({ checks }) => checks.rerun,
  run: async (first) => {
    const { section, ...found } = await rerunCommand(first);
    return { sections: { rerun: section }, ...found };
  },
};

/** The command that undoes the migration. What it has to restore is read before the migration. */
export const DOWN: ExtraRun = {
  path: 'down',
  isAsked: ({ checks }) => checks.down !== null,
  contents: {},
  run: async ({ setup, prepared, before, ran }, { runs }) => {
    const contents = before.contents.contents.get('down');
    if (!prepared.down || !contents) return {};
    const obstacle = whyNot(
      setup,
      ran.result,
      runs.flatMap(({ targetConnections }) => targetConnections),
    );
    const { section, ...found } = await runDown(setup, prepared.down, contents, obstacle);
    return { sections: { down: section }, ...found };
  },
};

/** What a further run should lead to. */
interface Expected {
  readonly aim: Aim;
  readonly contents: Contents;
}

function rerunCommand({ setup, prepared, ran, after }: FirstRun): Promise<Attempt> {
  const { schema } = after.observed;
  return attemptRun(setup, 'rerun', prepared.command, async () => {
    refuseIf(whyNot(setup, ran.result, []));
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
  path: 'rerun' | 'down',
  command: LocatedCommand,
  expect: () => Promise<Expected>,
): Promise<Attempt> {
  const work = async (): Promise<Attempt> => {
    const caveats: Caveat[] = [];
    const began = await measured(caveats, path, async () => {
      const expected = await expect();
      return { expected, run: await runThroughWire(setup, command, await openWire(setup, command)) };
    });
    if (!began) return { section: null, runs: [], statements: [], caveats };
    const { expected, run } = began;
    caveats.push(...run.caveats);
    const statements = await measured(caveats, path, () => statementsOf(setup, run));
    if (!statements) return { section: null, runs: [run], statements: [], caveats };
    const ignored = path === 'rerun' ? setup.plan.checks.rerunIgnore : [];
    const compared = await measured(caveats, path, () => compareRun(setup, expected, ignored));
    if (!compared) return { section: null, runs: [run], statements, caveats };
    const words = commandWithoutSecrets(command.input.argv, command.logins.logins);
    const section = sectionOf(run.result, {
      // Of `sh -c` the script alone is what the user gave.
      command: path === 'down' ? (words.at(-1) ?? '') : words.join(' '),
      reachedClone: run.wire.reached(),
      refused: run.gate.refused,
      statements,
      ...compared,
    });
    return { section, runs: [run], statements, caveats };
  };
  return inPhase(setup.context.emit, path, work, ({ section }) => section === null);
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
  if (targetConnections.length > 0) return 'a further run connected to the target itself';
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
