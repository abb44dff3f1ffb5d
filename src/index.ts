export type { ApplyOptions } from './apply/apply-options.ts';
export { apply } from './apply/perform-apply.ts';
export { type ErrorCode, SafemigrateError } from './errors.ts';
export type { Emit, Phase, RunEvent } from './events.ts';
export type { Report } from './model/report.ts';
export type { Audit, AuditEntry } from './postgres/connection/audit.ts';
export { type PlannedStatements, planRehearsal } from './rehearsal/describe-plan.ts';
export { rehearse } from './rehearsal/rehearse.ts';
export type { RehearseOptions } from './rehearsal/run-options.ts';
