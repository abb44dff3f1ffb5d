import { SafemigrateError } from '../errors.ts';
import { formatDuration } from '../format.ts';
import type { Report, SwapSection } from '../model/report.ts';
import { prepare } from '../rehearsal/prepare.ts';
import { redactIfAsked, rehearseAndRemember } from '../rehearsal/rehearse.ts';
import { withScope } from '../rehearsal/with-scope.ts';
import type { Cleanup } from '../scope.ts';
import { exchangeTarget, FOR_EXCHANGE, refusedSwap, swapObjections } from './exchange.ts';
import type { SwapOptions } from './swap-options.ts';

/**
 * Rehearses; then closes the target, clones it, runs the command on the clone, and gives the clone the target's name in one
 * transaction. What fails before that leaves the target as it was, and open.
 * @throws SafemigrateError what rehearse() throws; `TARGET_CHANGED` where the target could not be opened again.
 */
export async function swap(options: SwapOptions): Promise<Report> {
  if (options.from !== undefined)
    throw new SafemigrateError(
      'USAGE',
      '--from rehearses on a dump: there is no target that could be swapped.',
    );
  return redactIfAsked(await rehearseAndSwap(options), options);
}

async function rehearseAndSwap(options: SwapOptions): Promise<Report> {
  const { report, before } = await rehearseAndRemember(options);
  const inSwap = (section: SwapSection): Report => ({
    ...report,
    run: { ...report.run, mode: 'swap', finishedAt: new Date().toISOString() },
    swap: section,
  });
  if (!report.verdict.pass) return inSwap(refusedSwap(['the rehearsal did not pass']));
  const expectedMs = report.clone.durationMs + report.command.durationMs;
  if (expectedMs > (options.maxClosedMs ?? Number.POSITIVE_INFINITY))
    return inSwap(refusedSwap([tooLong(expectedMs)]));
  // The target may change while a person thinks; what stands against it is looked for afterwards.
  if (!(await options.confirm(report))) return inSwap(refusedSwap(['it was not confirmed']));
  // Of the target itself a clone is made, wherever the rehearsal was.
  const { rehearsalUrl: _, ...here } = options;
  const { result, cleanup } = await withScope(options, async (scope, stop) => {
    const prepared = await prepare(scope, stop, { ...here, ...FOR_EXCHANGE });
    const reasons = await swapObjections(prepared, before, options);
    if (reasons.length > 0) return refusedSwap(reasons);
    return exchangeTarget(prepared, { scope, stop }, options);
  });
  return withCleanup(inSwap(result), cleanup);
}

function tooLong(expectedMs: number): string {
  return `the target would be closed for about ${formatDuration(expectedMs)}, going by the rehearsal, and --max-stall allows less`;
}

function withCleanup(report: Report, { done, failed }: Cleanup): Report {
  const { cleanup } = report;
  return { ...report, cleanup: { done: [...cleanup.done, ...done], failed: [...cleanup.failed, ...failed] } };
}
