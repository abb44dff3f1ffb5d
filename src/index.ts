export { type ErrorCode, SafemigrateError } from './errors.ts';
export type { Emit, Phase, RunEvent } from './events.ts';
export type { Report } from './model/report.ts';
export type { Audit, AuditEntry } from './postgres/connection/audit.ts';
export { type PlannedStatements, planRehearsal } from './rehearsal/describe-plan.ts';
export { apply, rehearse } from './rehearsal/run.ts';
export type { ApplyOptions, RehearseOptions } from './rehearsal/run-options.ts';
