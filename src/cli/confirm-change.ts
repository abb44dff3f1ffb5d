import { formatDuration } from '../format.ts';
import type { Report } from '../model/report.ts';
import { render } from '../report/render.ts';
import { withoutCommands } from './ci/log-commands.ts';
import { confirm } from './confirm.ts';
import type { RunValues } from './options/run-table.ts';
import type { ProgressDisplay } from './progress.ts';
import { forReader } from './publish.ts';
import { styleOf } from './style.ts';

/** Shows what was rehearsed, and asks whether to run the command on the target; `--yes` is the answer. */
export async function confirmApply(
  report: Report,
  { yes = false, redact }: RunValues,
  display: ProgressDisplay,
  signal: AbortSignal,
): Promise<boolean> {
  if (yes) return true;
  display.finish();
  const style = styleOf({ stream: process.stderr, env: process.env });
  process.stderr.write(
    withoutCommands(`\n${await render(await forReader(report, 'text', redact), 'text', style)}`),
  );
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
