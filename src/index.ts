export { type ErrorCode, SafemigrateError } from './errors.ts';
export type { Emit, Phase, RunEvent } from './events.ts';
export type { Report } from './report/model.ts';
export { type PlannedStatements, planRehearsal, type RehearseOptions, rehearse } from './run.ts';
export type { Audit, AuditEntry } from './target/session.ts';
