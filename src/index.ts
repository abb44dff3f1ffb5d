export { type ErrorCode, SafemigrateError } from './errors.ts';
export type { Emit, Phase, RunEvent } from './events.ts';
export type { Report } from './report/model.ts';
export type { ApplyOptions } from './run/apply/section.ts';
export type { RehearseOptions } from './run/options.ts';
export { type PlannedStatements, planRehearsal } from './run/plan.ts';
export { apply, rehearse } from './run.ts';
export type { Audit, AuditEntry } from './target/session.ts';
