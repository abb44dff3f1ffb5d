import { createInterface } from 'node:readline/promises';
import { SafemigrateError } from '../errors.ts';
import { formatDuration } from '../format.ts';
import type { Report } from '../model/report.ts';
import { renderRehearsal } from '../report/text.ts';
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

/**
 * Asks a person on the terminal; `--yes` answers for scripts.
 * @throws SafemigrateError `REFUSED` if there is no terminal.
 */
export async function confirm(question: string, yes: boolean, signal: AbortSignal): Promise<boolean> {
  if (yes) return true;
  refuseUnasked(yes);
  const line = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await line.question(`\n${question} Go on? [y/N] `, { signal });
    return /^\s*y(es)?\s*$/i.test(answer);
  } finally {
    line.close();
  }
}

/** Shows what was rehearsed, and asks whether to run the command on the target; `--yes` is the answer. */
export async function confirmApply(
  report: Report,
  { yes = false, redact }: RunValues,
  display: ProgressDisplay,
  signal: AbortSignal,
): Promise<boolean> {
  if (yes) return true;
  display.finish();
  const style = styleOf(process.stderr);
  const text = renderRehearsal(await forReader(report, 'text', redact), style);
  process.stderr.write(withoutCommands(`\n${text}`));
  const { database, host, port } = report.target;
  const took = `It took ${formatDuration(report.command.durationMs)} on the clone.`;
  return confirm(`Now the command runs on ${database} on ${host}:${port} itself. ${took}`, yes, signal);
}

/** Asks whether to close the target and swap it, with the time that the rehearsal needed; `--yes` is the answer. */
export function confirmSwap(
  report: Report,
  { yes = false }: RunValues,
  signal: AbortSignal,
): Promise<boolean> {
  const { database } = report.target;
  const aboutMs = report.clone.durationMs + report.command.durationMs;
  const question =
    `The rehearsal passed. No session will be able to connect to ${database} for about ${formatDuration(aboutMs)}; ` +
    'then it is the migrated clone, and the original is kept beside it.';
  return confirm(question, yes, signal);
}
