import type { StatementSection } from '../../model/report.ts';
import type { HazardContext } from '../hazard-context.ts';

const ENDS_TRANSACTION = /^(?:COMMIT|ROLLBACK|PREPARE TRANSACTION)$/;

/** A block or procedure that sets a lock_timeout does so before it locks. */
const RUNS_CODE = /^(?:DO|CALL)$/;

/** The indexes of those statements of a session that ran with a lock_timeout. */
export function withLockTimeout(
  context: HazardContext,
  statements: readonly StatementSection[],
): Set<number> {
  const limited = new Set<number>();
  const { catalogue, sessionsWithLockTimeout } = context.facts;
  let session = catalogue.lockTimeoutByDefault || sessionsWithLockTimeout.has(statements[0]?.session ?? 0);
  let local: boolean | undefined;
  let transaction: number | undefined;
  for (const statement of statements) {
    if (statement.transaction !== transaction || ENDS_TRANSACTION.test(statement.tag ?? ''))
      local = undefined;
    transaction = statement.transaction;
    const own = context.actionsIn(statement, 'set lock_timeout').at(-1)?.action;
    const setsWithin = RUNS_CODE.test(statement.tag ?? '') && own?.off === false;
    if (setsWithin || (local ?? session)) limited.add(statement.index);
    if (statement.error) continue;
    for (const { action } of context.actionsIn(statement, 'set lock_timeout')) {
      if (action.local) local = !action.off;
      else [session, local] = [!action.off, undefined];
    }
  }
  return limited;
}
