import { makeApplyPlan } from './apply/apply-plan.ts';
import type { ApplyOptions } from './apply/apply-settings.ts';
import { performApply } from './apply/perform-apply.ts';
import type { Report } from './model/report.ts';
import { describeStatements, type PlannedStatements } from './rehearsal/describe-plan.ts';
import { makeRehearsalPlan } from './rehearsal/plan.ts';
import type { RehearseOptions } from './rehearsal/rehearsal-settings.ts';
import { performRehearsal } from './rehearsal/rehearse.ts';

export type { ApplyOptions } from './apply/apply-settings.ts';
export { type ErrorCode, SafemigrateError } from './errors.ts';
export type { Emit, Phase, RunEvent } from './events.ts';
export type { Report } from './model/report.ts';
export type { Audit, AuditEntry } from './postgres/connection/audit.ts';
export type { PlannedStatements } from './rehearsal/describe-plan.ts';
export type { RehearseOptions } from './rehearsal/rehearsal-settings.ts';

/**
 * Rehearses a migration command on a clone of its target, and cleans up however it ends.
 * @throws SafemigrateError if there is nothing to report on: the command was never started, or the server was lost.
 */
export async function rehearse(options: RehearseOptions): Promise<Report> {
  return performRehearsal(makeRehearsalPlan(options));
}

/**
 * Rehearses, and runs the command on the target itself if the rehearsal passed and still holds. A receipt replaces the
 * rehearsal. @throws SafemigrateError as rehearse(); `REFUSED`; `TARGET_CHANGED` if the outcome of the command is not known
 */
export async function apply(options: ApplyOptions): Promise<Report> {
  return performApply(makeApplyPlan(options));
}

/** Lists what a rehearsal would do to the target's server. It changes nothing: what it sends only reads. */
export async function planRehearsal(options: RehearseOptions): Promise<PlannedStatements> {
  return describeStatements(makeRehearsalPlan(options));
}
