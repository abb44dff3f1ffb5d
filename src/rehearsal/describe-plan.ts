import { unprovedBeforehand } from '../clone/clone-section.ts';
import { describeIsolation } from '../command/sandbox/command-sandbox.ts';
import { describeTarget } from '../database/target.ts';
import type { CommandIsolation, TargetSection } from '../model/report.ts';
import type { Audit, AuditEntry } from '../postgres/connection/audit.ts';
import { findsCauses } from './find-causes.ts';
import type { RehearsalPlan } from './plan.ts';
import { prepare } from './prepare.ts';
import { withScope } from './with-scope.ts';

export interface PlannedStatements {
  readonly target: TargetSection;
  /** Statements that were sent to find out the rest: they only read. */
  readonly sent: readonly AuditEntry[];
  /** Statements that a run would send after that, to the target's server. */
  readonly next: readonly string[];
  /** Means that would keep the command from the target, besides the proxy. */
  readonly isolation: CommandIsolation;
}

const SECOND_CLONE =
  '-- the same once more if a probe differs, several statements may be the cause, and the clone was cheap to make';

/** Lists what a rehearsal would do to the target's server. It changes nothing: what it sends only reads. @internal */
export async function describeStatements(plan: RehearsalPlan): Promise<PlannedStatements> {
  const sent: AuditEntry[] = [];
  const audit: Audit = (entry) => {
    sent.push(entry);
    plan.audit(entry);
  };
  const { result } = await withScope(plan, async (scope, stop) => {
    const { context, choice, sandbox } = await prepare(scope, stop, { ...plan, audit });
    const target = describeTarget(
      context.target,
      { changes: [], unchanged: true, sessions: null },
      { touched: [], origin: plan.target.from === null ? 'database' : 'dump' },
    );
    const { method, assessment } = choice;
    const how = `-- clone: ${method.id} (${assessment.strategy}): ${assessment.reason}`;
    const unproved = unprovedBeforehand(assessment, context.target.role);
    const noted = unproved === null ? [] : [`-- proof: ${unproved}`];
    const again = findsCauses(plan) ? [SECOND_CLONE] : [];
    const next = [how, ...noted, ...(await method.describe(context, assessment)), ...again];
    return { target, next, isolation: describeIsolation(sandbox) };
  });
  return { sent, ...result };
}
