import { steadyDate } from '../clock.ts';
import { messageOf, SafemigrateError } from '../errors.ts';
import type { OnlineSection, Report, SwapSection } from '../model/report.ts';
import type { Cleanup } from '../scope.ts';

const NOT_STARTED = {
  original: null,
  keepUntil: null,
  stallMs: null,
  closings: [],
  sessionsEnded: 0,
  steps: [],
};

/** The section of a swap or rollback that was refused before anything was touched. */
export function refusedSwap(reasons: string[]): SwapSection {
  return { ...NOT_STARTED, outcome: 'refused', reasons };
}

/** Costs of an online swap, or of a rollback that keeps all writes, that has not begun. */
export const NOTHING_YET: OnlineSection = {
  cloneClosedMs: null,
  cloneGapMs: null,
  lag: [],
  catchUpMs: null,
  rowsCompared: null,
  rowsUnsettled: null,
  compareMs: null,
  notCompared: [],
  postponedMs: null,
  attempts: null,
  cutOverAtMs: null,
  cutOverClosedMs: null,
  cutOverGapMs: null,
  wayBack: null,
};

/** Like refusedSwap(), for one whose target stays open. */
export function refusedOnline(reasons: string[]): SwapSection {
  return { ...refusedSwap(reasons), online: NOTHING_YET };
}

/** The error with which a step says why the swap has to be undone. */
export function swapFailure(reason: string): SafemigrateError {
  return new SafemigrateError('REFUSED', `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`);
}

/** The error for a target that is still closed after an attempt to undo the swap. */
export function stillClosedFailure(
  name: string,
  byHand: string,
  first: unknown,
  cause: unknown,
): SafemigrateError {
  return new SafemigrateError(
    'TARGET_CHANGED',
    `${messageOf(first).replace(/\.?$/, '.')} And ${name} could not be reopened: ${messageOf(cause)}`,
    {
      cause,
      hint: `No session can connect to it. A background process keeps trying to reopen it. By hand: ${byHand}`,
    },
  );
}

/** Adds the swap, and what it released, to the report of its rehearsal. */
export function withSwap(report: Report, swap: SwapSection, { done, failed }: Cleanup): Report {
  const { run, cleanup } = report;
  return {
    ...report,
    run: { ...run, mode: 'swap', finishedAt: steadyDate().toISOString() },
    swap,
    cleanup: { done: [...cleanup.done, ...done], failed: [...cleanup.failed, ...failed] },
  };
}
