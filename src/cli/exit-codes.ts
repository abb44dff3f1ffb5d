import { constants } from 'node:os';
import type { ErrorCode } from '../errors.ts';
import type { Report } from '../model/report.ts';
import type { VerdictLine } from '../report/ending.ts';

/** Exit codes for scripts; docs/exit-codes-and-errors.md documents them. */
export const EXIT = {
  passed: 0,
  failed: 1,
  usage: 2,
  cannotRehearse: 3,
  refused: 4,
  targetChanged: 5,
} as const;

const OF_ERROR: Record<ErrorCode, number> = {
  USAGE: EXIT.usage,
  CONFIGURATION: EXIT.usage,
  COMMAND: EXIT.usage,
  SANDBOX: EXIT.cannotRehearse,
  CONNECTION: EXIT.cannotRehearse,
  SERVER: EXIT.cannotRehearse,
  PRIVILEGE: EXIT.cannotRehearse,
  SESSIONS: EXIT.cannotRehearse,
  STALL: EXIT.cannotRehearse,
  DISK: EXIT.cannotRehearse,
  CLONE: EXIT.cannotRehearse,
  LOST: EXIT.cannotRehearse,
  TARGET_CHANGED: EXIT.targetChanged,
  REFUSED: EXIT.refused,
  NOT_OURS: EXIT.cannotRehearse,
  INTERRUPTED: EXIT.cannotRehearse,
};

export function exitCodeOfError(code: ErrorCode, signal: NodeJS.Signals | undefined): number {
  return signal && code !== 'TARGET_CHANGED' ? exitCodeOfSignal(signal) : OF_ERROR[code];
}

/** The verdict of a run that has no report. */
export function endingOfError(exitCode: number): VerdictLine {
  switch (exitCode) {
    case EXIT.usage:
      return { outcome: 'bad', words: 'Not started, nothing was changed.' };
    case EXIT.refused:
      return { outcome: 'bad', words: 'Refused, nothing was changed.' };
    case EXIT.targetChanged:
      return { outcome: 'alarm', words: 'The target is not as asked: look at it now.' };
    case EXIT.cannotRehearse:
      return { outcome: 'bad', words: 'Could not rehearse, nothing was changed.' };
    default:
      return { outcome: 'bad', words: 'Interrupted, nothing was changed.' };
  }
}

/** A change of the target outweighs everything, even the signal that ended the run. */
export function exitCodeOfReport(report: Report, signal: NodeJS.Signals | undefined): number {
  const { apply } = report;
  if (apply?.outcome === 'partly') return EXIT.targetChanged;
  if (report.target.unchanged === false) return EXIT.targetChanged;
  // An applied or swapped target stays so, whatever happened afterwards.
  if (apply?.outcome === 'applied' || report.swap?.outcome === 'swapped') return EXIT.passed;
  if (signal) return exitCodeOfSignal(signal);
  if (!report.verdict.pass && apply?.forced == null) return EXIT.failed;
  if (apply) return EXIT.refused;
  return report.swap === null ? EXIT.passed : EXIT.refused;
}

export function exitCodeOfSignal(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}
