import { SafemigrateError } from '../errors.ts';
import { formatDuration } from '../format.ts';
import type { Report } from '../model/report.ts';
import { render } from '../report/render.ts';
import { confirm, refuseUnasked } from './confirm.ts';
import { duringOf } from './guardrail-options-table.ts';
import type { RUN_OPTIONS, Values } from './options-table.ts';
import type { ProgressDisplay } from './progress.ts';
import { forReader } from './publish.ts';
import { styleOf } from './style.ts';

/** What an apply is told beyond a rehearsal. @throws SafemigrateError `USAGE`, `REFUSED` where nobody can be asked. */
export function toApply(
  { yes = false, force, maxAge, redact, retries, swap = false, ...during }: Values<typeof RUN_OPTIONS>,
  display: ProgressDisplay,
  signal: AbortSignal,
) {
  if (swap)
    throw new SafemigrateError('USAGE', '--apply and --swap cannot be given together.', {
      hint: 'Either the command runs on the target, or a migrated clone takes its place. Nothing was touched.',
    });
  refuseUnasked(yes);
  return {
    during: duringOf(during),
    ...(force === undefined ? {} : { force }),
    ...(maxAge === undefined ? {} : { maxAgeMs: maxAge }),
    ...(retries === undefined ? {} : { retries }),
    confirm: async (report: Report) => {
      if (yes) return true;
      display.finish();
      const style = styleOf({ stream: process.stderr, env: process.env });
      process.stderr.write(`\n${await render(await forReader(report, 'text', redact), 'text', style)}`);
      const { database, host, port } = report.target;
      const took = `It took ${formatDuration(report.command.durationMs)} on the clone.`;
      return confirm(`Now the command runs on ${database} on ${host}:${port} itself. ${took}`, yes, signal);
    },
  };
}
