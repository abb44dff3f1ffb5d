import { createInterface } from 'node:readline/promises';
import { SafemigrateError } from '../errors.ts';
import { formatBytes, formatDuration } from '../format.ts';
import type { Report } from '../model/report.ts';
import { stakesOf } from '../report/stakes.ts';
import { renderRehearsal } from '../report/text.ts';
import { flow } from '../report/text-layout.ts';
import { fillIn } from '../settings.ts';
import { SWAP_SETTINGS } from '../swap/swap-settings.ts';
import { withoutCommands } from './ci/log-commands.ts';
import type { RunValues } from './options/run-table.ts';
import type { ProgressDisplay } from './progress.ts';
import { forReader } from './publish.ts';
import { styleOf } from './style.ts';

/** Refuses a run that cannot be confirmed before it does any work. @throws SafemigrateError `REFUSED` */
export function refuseUnasked(yes: boolean): void {
  if (yes || (process.stdin.isTTY && process.stderr.isTTY)) return;
  throw new SafemigrateError('REFUSED', 'There is no terminal to ask on, and --yes was not given.', {
    hint: 'Nothing was touched. With --yes it goes on without a question, once the rehearsal has passed.',
  });
}

/** A question before something is changed. */
interface Question {
  /** Sentences about the change to come; every line is wrapped. */
  readonly lines: readonly string[];
  /** Answers for scripts. */
  readonly yes: boolean;
  readonly signal: AbortSignal;
  /** The answer that must be typed if a slip of the finger would be too dear; default: y. */
  readonly name?: string;
}

/**
 * Asks a person on the terminal; `--yes` answers for scripts.
 * @throws SafemigrateError `REFUSED` if there is no terminal.
 */
export async function confirm({ lines, yes, signal, name }: Question): Promise<boolean> {
  if (yes) return true;
  refuseUnasked(yes);
  const style = styleOf(process.stderr);
  const shown = lines.flatMap((line) => flow(style, [line], /^\s*/.exec(line)?.[0].length, ['']));
  const asked = name === undefined ? 'Go on? [y/N] ' : "Type the database's name to continue: ";
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  process.stderr.write(withoutCommands(`\n${shown.join('\n')}\n`));
  try {
    const answer = (await terminal.question(asked, { signal })).trim();
    return name === undefined ? /^y(es)?$/i.test(answer) : answer === name;
  } finally {
    terminal.close();
  }
}

/** Shows what was rehearsed, and asks whether to run the command on the target; `--yes` is the answer. */
export function confirmApply(
  report: Report,
  values: RunValues,
  display: ProgressDisplay,
  signal: AbortSignal,
): Promise<boolean> {
  const { database, host, port } = report.target;
  const took = `It took ${formatDuration(report.command.durationMs)} on the clone.`;
  const what = `Now the command runs on ${database} on ${host}:${port} itself. ${took}`;
  const { users } = stakesOf(report);
  return confirmAfter(report, [what, `  Users: ${users}`], values, { display, signal });
}

/** Asks whether to close the target and swap it, with the estimate of how long it is closed; `--yes` is the answer. */
export function confirmSwap(
  report: Report,
  { closedMs, limits }: { readonly closedMs: number; readonly limits: readonly string[] },
  values: RunValues,
  display: ProgressDisplay,
  signal: AbortSignal,
): Promise<boolean> {
  const { database } = report.target;
  const about = `about ${formatDuration(closedMs)}`;
  const offline =
    `The rehearsal passed. No session will be able to connect to ${database} for ${about}; ` +
    'then it is the migrated clone, and the original is kept beside it.';
  const question = values.online?.enabled
    ? onlineQuestion(database, about, values.online, limits)
    : [offline];
  return confirmAfter(report, question, values, { display, signal });
}

function onlineQuestion(
  database: string,
  about: string,
  given: NonNullable<RunValues['online']>,
  limits: readonly string[],
): string[] {
  const { maxCutOverMs, maxKeptWalBytes, wayBackMs } = fillIn(SWAP_SETTINGS.online, given);
  return [
    `The rehearsal passed. ${database} stays open while a clone of it is migrated and follows it.`,
    `  Closed: twice, and all sessions are terminated each time: for ${about} while it is cloned, and for a moment when the clone takes its place (it is opened again if that takes longer than ${formatDuration(maxCutOverMs)})`,
    `  Cost: until then the server decodes its WAL, and keeps up to ${formatBytes(maxKeptWalBytes)} of it (--limit kept-wal)`,
    `  Afterwards: ${database} is the migrated clone, with all that was written; the original is kept beside it`,
    ...(wayBackMs === null ? [] : wayBackLines(wayBackMs, limits)),
  ];
}

function wayBackLines(lastsMs: number, limits: readonly string[]): string[] {
  const lines = [
    `  Way back: the original follows it for ${formatDuration(lastsMs)}, with the writes a third time; \`rollback\` then keeps all new writes`,
  ];
  return limits.length === 0 ? lines : [...lines, `  Not taken back, or in its way: ${limits.join('; ')}`];
}

/** Shows the rehearsal, and asks with what is lost for good, if anything is. */
async function confirmAfter(
  report: Report,
  question: readonly string[],
  { yes = false, redact }: RunValues,
  { display, signal }: { display: ProgressDisplay; signal: AbortSignal },
): Promise<boolean> {
  if (yes) return true;
  display.finish();
  const text = renderRehearsal(await forReader(report, 'text', redact), styleOf(process.stderr));
  process.stderr.write(withoutCommands(`\n${text}`));
  const { lost } = stakesOf(report);
  const losses = lost.map((each) => `  Lost for good: ${each}`);
  const lines = [...question, ...losses];
  return confirm({ lines, yes, signal, ...(lost.length > 0 && { name: report.target.database }) });
}
