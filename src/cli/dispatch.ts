import type { ManualOrder } from '../apply/guardrails/control.ts';
import { type ErrorCode, SafemigrateError } from '../errors.ts';
import type { RunMode } from '../settings.ts';
import { EXIT, endingOfError, exitCodeOfError } from './exit-codes.ts';
import { configSource } from './options/config.ts';
import {
  isProgramFormat,
  type ProgramFormat,
  printEnding,
  printError,
  printErrorObject,
  printUnforeseen,
  programFormat,
} from './print.ts';
import { type ParsedArguments, readWords } from './program.ts';
import { SignalWatch } from './signals.ts';
import { noCommand, type SplitArguments } from './split-arguments.ts';

/** Runs what the words ask for, and prints every failure. @returns the exit code. */
export async function dispatch(words: SplitArguments): Promise<number> {
  const signals = new SignalWatch();
  let action: ParsedArguments['action'] = 'rehearse';
  try {
    const asked = readWords(words.own, words.command !== undefined);
    if (asked === 'shown') return 0;
    action = asked.action;
    requireFolder();
    return await COMMANDS[action](asked, signals, words.command ?? []);
  } catch (error) {
    const known = error instanceof SafemigrateError ? error : undefined;
    const exitCode = known ? exitCodeOfError(known.code, signals.received) : EXIT.cannotRehearse;
    if (known) printError(known);
    else printUnforeseen(error);
    if (HAS_VERDICT.has(action)) printEnding(endingOfError(exitCode));
    const format = programFormat(words.own, process.env) ?? (await formatInConfig(action, known?.code));
    if (format !== undefined) printErrorObject(format, known, exitCode);
    return exitCode;
  } finally {
    signals.stop();
  }
}

/** The format for programs in the config file. One that is a program is executed only if the run has executed it before the error. */
async function formatInConfig(
  action: string,
  code: ErrorCode | undefined,
): Promise<ProgramFormat | undefined> {
  if (!HAS_VERDICT.has(action)) return undefined;
  try {
    const config = await configSource(process.cwd(), code !== 'USAGE');
    const format = config?.values.format;
    return isProgramFormat(format) ? format : undefined;
  } catch {
    // The mistake in the file, or the missing folder, is the error that is printed.
    return undefined;
  }
}

/** @throws SafemigrateError `USAGE` if the current folder was removed: nearly everything is relative to it. */
function requireFolder(): void {
  try {
    process.cwd();
  } catch (cause) {
    throw new SafemigrateError('USAGE', 'The current folder does not exist any more.', {
      hint: 'Nothing was touched. Go to a folder that exists, and run it again.',
      cause,
    });
  }
}

/** Actions that end with a verdict. */
const HAS_VERDICT: ReadonlySet<string> = new Set(['rehearse', 'apply', 'swap', 'upgrade']);

type Run = (
  asked: Pick<ParsedArguments, 'values' | 'subject'>,
  signals: SignalWatch,
  command: readonly string[],
) => number | Promise<number>;

/** Runs a mode: every one begins with a rehearsal of the command. */
function inMode(mode: RunMode): Run {
  return async ({ values }, signals, command) => {
    if (command.length === 0) throw noCommand(mode);
    const { rehearseCommand } = await import('./commands/run-command-line.ts');
    return rehearseCommand(mode, values, command, signals);
  };
}

/** Makes the order to a running apply. */
function toApply(order: ManualOrder): Run {
  return async ({ subject }) => (await import('./commands/orders.ts')).orderCommand(order, subject);
}

/** The function of each word on the command line. Its code is loaded when it is asked for. */
const COMMANDS: Readonly<Record<ParsedArguments['action'], Run>> = {
  rehearse: inMode('rehearse'),
  apply: inMode('apply'),
  swap: inMode('swap'),
  init: async ({ values }) => (await import('./commands/init-command.ts')).initCommand(values),
  doctor: async ({ values }, { abort }) =>
    (await import('./commands/doctor-command.ts')).doctorCommand(values, abort),
  list: async ({ values }, { abort }) =>
    (await import('./commands/list-command.ts')).listCommand(values, abort),
  clean: async ({ values }, { abort }) =>
    (await import('./commands/clean-command.ts')).cleanCommand(values, abort),
  clone: async ({ values }, { abort }) =>
    (await import('./commands/clone-command.ts')).cloneCommand(values, abort),
  reset: async ({ subject }, { abort }) =>
    (await import('./commands/clone-command.ts')).resetCommand(subject, abort),
  'cut-over': async ({ values, subject }, { abort }) =>
    (await import('./commands/cut-over-command.ts')).cutOverCommand(values, subject, abort),
  rollback: async ({ values, subject }, { abort }) =>
    (await import('./commands/rollback-command.ts')).rollbackCommand(values, subject, abort),
  pause: toApply('pause'),
  resume: toApply('resume'),
  abort: toApply('abort'),
  show: async ({ values, subject }) =>
    (await import('./commands/show-command.ts')).showCommand(values, subject),
  comment: async ({ values, subject }) =>
    (await import('./commands/comment-command.ts')).commentCommand(subject, values),
  completion: async ({ subject }) =>
    (await import('./commands/completion-command.ts')).completionCommand(subject),
  profile: async ({ values }, { abort }) =>
    (await import('./commands/profile-command.ts')).profileCommand(values, abort),
  upgrade: async ({ values }, signals, command) =>
    (await import('./commands/upgrade-command.ts')).upgradeCommand(values, command, signals),
  explain: async ({ values, subject }) =>
    (await import('./commands/explain-command.ts')).explainCommand(values, subject),
  schema: async ({ subject }) => (await import('./commands/schema-command.ts')).schemaCommand(subject),
  demo: async ({ values }, signals) =>
    (await import('./commands/demo-command.ts')).demoCommand(values, signals),
};
