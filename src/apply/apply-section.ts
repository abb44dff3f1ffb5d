import type { ApplySection, Caveat, Report } from '../model/report.ts';
import type { Rehearsal } from '../rehearsal/receipts/receipt-file.ts';
import type { Cleanup } from '../scope.ts';
import type { ApplyOptions } from './apply-options.ts';

export interface Applied {
  readonly report: Report;
  /** The target is not the one that was rehearsed on: it may be rehearsed again. */
  readonly outdated: readonly string[];
}

export interface Result {
  readonly section: ApplySection;
  readonly caveats: readonly Caveat[];
  readonly run?: string;
  readonly outdated?: readonly string[];
}

export const NOT_STARTED = {
  startedAt: null,
  finishedAt: null,
  command: null,
  attempts: [],
  statements: [],
  transactions: [],
  during: null,
  schemaEqual: null,
  fingerprints: null,
  differences: [],
  leftovers: [],
  comparedTimes: [],
  committed: [],
  rolledBack: [],
  wayBack: null,
  bookkeeping: null,
} satisfies Partial<ApplySection>;

export function refusedApply(rehearsal: Rehearsal, options: ApplyOptions, reasons: string[]): ApplySection {
  return { ...NOT_STARTED, ...basis(rehearsal, options), outcome: 'refused', reasons };
}

/** What only `--force` gets past. */
export function standsAgainst({ verdict, schema }: Report): string | undefined {
  if (!verdict.pass) return 'the rehearsal did not pass';
  return schema === null
    ? 'the rehearsal could not read the schema, so that nobody could say whether the target got the same'
    : undefined;
}

/** What the apply relies on. */
export function basis(
  rehearsal: Rehearsal,
  { force }: ApplyOptions,
): Pick<ApplySection, 'rehearsal' | 'receipt' | 'forced'> {
  const { run } = rehearsal.report;
  const forced = standsAgainst(rehearsal.report) === undefined ? null : (force ?? null);
  if (!('receipt' in rehearsal)) return { rehearsal: run.id, receipt: null, forced };
  const { proved, seal } = rehearsal.receipt;
  const ageMs = Math.max(0, Date.now() - Date.parse(proved.finishedAt));
  const receipt = { finishedAt: proved.finishedAt, ageMs, signed: seal.kind === 'hmac-sha256' };
  return { rehearsal: run.id, receipt, forced };
}

export function inReport(
  report: Report,
  { section, caveats, run }: Result,
  startedAt: Date,
  more?: Cleanup,
): Report {
  return {
    ...report,
    run: {
      ...report.run,
      ...(run === undefined ? {} : { id: run }),
      ...{ startedAt: startedAt.toISOString(), finishedAt: new Date().toISOString(), mode: 'apply' },
    },
    caveats: [...report.caveats, ...caveats],
    apply: section,
    cleanup: {
      done: [...report.cleanup.done, ...(more?.done ?? [])],
      failed: [...report.cleanup.failed, ...(more?.failed ?? [])],
    },
  };
}
