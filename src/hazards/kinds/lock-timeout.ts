import type { StatementSection } from '../../model/report.ts';
import type { HazardContext } from '../hazard-context.ts';

const ENDS_TRANSACTION = /^(?:COMMIT|ROLLBACK|PREPARE TRANSACTION)$/;

/** Of one session's statements those that waited for locks with a limit, as the session itself has set it. */
export function withLockTimeout(ground: HazardContext, statements: readonly StatementSection[]): Set<number> {
  const limited = new Set<number>();
  const { catalogue, sessionsWithLockTimeout } = ground.facts;
  let session = catalogue.lockTimeoutByDefault || sessionsWithLockTimeout.has(statements[0]?.session ?? 0);
  let local: boolean | undefined;
  let transaction: number | undefined;
  for (const statement of statements) {
    if (statement.transaction !== transaction || ENDS_TRANSACTION.test(statement.tag ?? ''))
      local = undefined;
    transaction = statement.transaction;
    if (local ?? session) limited.add(statement.index);
    if (statement.error) continue;
    for (const { action } of ground.asked(statement, 'set lock_timeout')) {
      if (action.local) local = !action.off;
      else [session, local] = [!action.off, undefined];
    }
  }
  return limited;
}
