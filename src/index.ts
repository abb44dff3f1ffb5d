export { type ErrorCode, SafemigrateError } from './errors.ts';
export type { Emit, Phase, RunEvent } from './events.ts';
export type { Report } from './model/report.ts';
export type { Audit, AuditEntry } from './postgres/connection/audit.ts';
export type { ApplyOptions, RehearseOptions } from './run/asked.ts';
export { type PlannedStatements, planRehearsal } from './run/plan.ts';
export { apply, rehearse } from './run.ts';
