import { describeTarget } from '../database/target-section.ts';
import type { TargetSection } from '../model/report.ts';
import type { Audit, AuditEntry } from '../postgres/connection/audit.ts';
import { prepare } from './prepare.ts';
import type { RehearseOptions } from './run-options.ts';
import { withScope } from './with-scope.ts';

export interface PlannedStatements {
  readonly target: TargetSection;
  /** What was sent to find out the rest: it only reads. */
  readonly sent: readonly AuditEntry[];
  /** What a run would send after that, to the target's server. */
  readonly next: readonly string[];
}

/** What a rehearsal would do to the target's server. Nothing is changed: what is sent only reads. */
export async function planRehearsal(options: RehearseOptions): Promise<PlannedStatements> {
  const sent: AuditEntry[] = [];
  const audit: Audit = (entry) => {
    sent.push(entry);
    options.audit?.(entry);
  };
  const { result } = await withScope(options, async (scope, stop) => {
    const { context, choice } = await prepare(scope, stop, { ...options, audit });
    const target = describeTarget(context.target, [], []);
    return { target, next: await choice.method.describe(context, choice.assessment) };
  });
  return { sent, ...result };
}
