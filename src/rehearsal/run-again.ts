import { commandWithoutSecrets } from '../command/command-secrets.ts';
import type { CommandResult } from '../command/run-command.ts';
import { inPhase } from '../events.ts';
import { countsAgainst } from '../hazards/extra-runs.ts';
import { refersTo } from '../hazards/policy.ts';
import { measured } from '../measured.ts';
import type { Caveat, FurtherRunSection, StatementSection, TargetConnection } from '../model/report.ts';
import { type Contents, compareContents } from '../observe/checks/contents.ts';
import { type Aim, aimAtAfter, aimAtBefore } from '../observe/checks/schema-again.ts';
import { givenRelations } from '../observe/relation-names.ts';
import { contentsOf, inCloneForContents } from './clone-again.ts';
import type { ExtraResults, ExtraRun } from './extra-run.ts';
import {
  type CloneRun,
  type CloneSetup,
  type LocatedCommand,
  openWire,
  runThroughWire,
} from './run-on-clone.ts';

// The runs that follow the migration on its clone if the user asked for them: the command once more (--rerun), then the command that
// undoes it (--down).

/** The command once more. */
export const RERUN: ExtraRun = {
  path: 'rerun',
  isAsked: ({ checks }) => checks.rerun,
  run: ({ setup, prepared, ran, after }) =>
    attemptRun(setup, 'rerun', prepared.command, async () => {
      refuseIf(whyNotFurther(setup, ran.result, []));
      const contents = await contentsOf(setup);
      const { schema } = after.observed;
      const aim = await inCloneForContents(setup, (session) => aimAtAfter(session, setup.schema, schema));
      return { contents, aim };
    }),
};

/** The command that undoes the migration. What it has to restore is read before the migration. */
export const DOWN: ExtraRun = {
  path: 'down',
  isAsked: ({ checks }) => checks.down !== null,
  contents: {},
  run: async ({ setup, prepared, before, ran }, { runs }) => {
    const contents = before.contents.contents.get('down');
    if (!prepared.down || !contents) return {};
    const contacts = runs.flatMap(({ targetConnections }) => targetConnections);
    return attemptRun(setup, 'down', prepared.down, async () => {
      refuseIf(whyNotFurther(setup, ran.result, contacts));
      return { contents, aim: aimAtBefore(setup.schema) };
    });
  },
};

export function refuseIf(reason: string | null): void {
  if (reason !== null) throw new Error(reason);
}

/**
 * Runs a command through a proxy of its own, and compares what it left with what it should have left. What it did counts, even if
 * it cannot be compared.
 * @param expect returns the expected result.
 */
async function attemptRun(
  setup: CloneSetup,
  path: 'rerun' | 'down',
  command: LocatedCommand,
  expect: () => Promise<{ readonly aim: Aim; readonly contents: Contents }>,
): Promise<Partial<ExtraResults>> {
  const caveats: Caveat[] = [];
  const runs: CloneRun[] = [];
  let statements: StatementSection[] = [];
  const compare = async (): Promise<FurtherRunSection> => {
    const { aim, contents } = await expect();
    const run = await runThroughWire(setup, command, await openWire(setup, command));
    runs.push(run);
    caveats.push(...run.caveats);
    statements = await statementsOnFirst(setup, run);
    const ignored = path === 'rerun' ? setup.plan.checks.rerunIgnore : [];
    const compared = await compareRun(setup, aim, contents, ignored);
    const words = commandWithoutSecrets(command.input.argv, command.logins.logins);
    return sectionOf(run.result, {
      // Of `sh -c` the script alone is what the user gave.
      command: path === 'down' ? (words.at(-1) ?? '') : words.join(' '),
      reachedClone: run.wire.reached(),
      refused: run.gate.refused,
      statements,
      ...compared,
    });
  };
  const read = () => measured(caveats, path, compare);
  const section = await inPhase(setup.context.emit, path, read, (done) => done === null);
  const sections = path === 'rerun' ? { rerun: section } : { down: section };
  return { sections, runs, statements, caveats };
}

/** Returns the statements of a run on the first clone. @throws Error after an interrupt */
export async function statementsOnFirst(setup: CloneSetup, { wire }: CloneRun): Promise<StatementSection[]> {
  if (setup.plan.signal.aborted) throw new Error(INTERRUPTED);
  const tree = await inCloneForContents(setup, (session) => givenRelations(session, wire.lockedRelations()));
  return (await wire.statements({ tree })).statements;
}

async function compareRun(setup: CloneSetup, aim: Aim, contents: Contents, ignored: readonly string[]) {
  const schema = await inCloneForContents(setup, aim);
  const now = await contentsOf(setup);
  const compared = compareContents(contents, now);
  const dataDifferences = compared.dataDifferences.map((each) =>
    ignored.some((table) => refersTo(table, each.relation)) ? { ...each, ignored: true } : each,
  );
  return { ...schema, ...compared, dataDifferences };
}

const INTERRUPTED = 'the run was interrupted';

/** Says why no further run may follow. */
export function whyNotFurther(
  { plan }: CloneSetup,
  { exitCode }: CommandResult,
  targetConnections: readonly TargetConnection[],
): string | null {
  if (plan.signal.aborted) return INTERRUPTED;
  if (targetConnections.length > 0) return 'a further run connected to the target itself';
  return exitCode === 0 ? null : 'the command did not succeed, so that nothing could follow it';
}

function sectionOf(
  { exitCode, signal, timedOut, durationMs }: CommandResult,
  seen: Awaited<ReturnType<typeof compareRun>> &
    Pick<FurtherRunSection, 'command' | 'reachedClone' | 'refused' | 'statements'>,
): FurtherRunSection {
  const against = [
    ...seen.differences.filter(({ bookkeeping }) => !bookkeeping),
    ...seen.dataDifferences.filter(countsAgainst),
  ];
  const compared = seen.schemaEqual !== null;
  const passed = exitCode === 0 && compared && seen.refused.length === 0 && against.length === 0;
  return { ...seen, refused: [...seen.refused], exitCode, signal, timedOut, durationMs, passed };
}
