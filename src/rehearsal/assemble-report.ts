import type { Report } from '../model/report.ts';
import { redactReport } from '../observe/redact-report.ts';
import { toolVersion } from '../package.ts';
import type { TargetState } from '../proof/target-state.ts';
import type { Cleanup } from '../scope.ts';
import type { RehearsalSections } from './judge-rehearsal.ts';
import type { RehearsalPlan } from './plan.ts';
import type { ReceiptIdentity } from './receipts/receipt.ts';

/** What an apply or a swap needs to know of the rehearsal before it. */
export interface Remembered {
  readonly report: Report;
  /** The target as it was before the rehearsal. */
  readonly before: TargetState;
  readonly identity: ReceiptIdentity;
}

/** Puts the report together, at the end of the run. */
export function assembleReport(
  { run, before, identity, ...sections }: RehearsalSections,
  cleanup: Cleanup,
  startedAt: Date,
): Remembered {
  const report: Report = {
    version: 1,
    run: {
      id: run,
      startedAt: startedAt.toISOString(),
      finishedAt: new Date().toISOString(),
      mode: 'rehearse',
      tool: { name: 'safemigrate', version: toolVersion() },
    },
    ...sections,
    // Sections of the other modes.
    apply: null,
    swap: null,
    cleanup,
  };
  return { report, before, identity };
}

/** Returns the report as its reader gets it: comparisons need the values, so redaction is the last step. */
export async function redactIfAsked(report: Report, { redact }: RehearsalPlan): Promise<Report> {
  return redact ? redactReport(report) : report;
}
