import { SafemigrateError, sqlstateOf } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';

/** Lists the statements that reopen a database which was closed for a swap, and restore its comment. */
export function openingStatements(database: string, comment: string | null): string[] {
  return [
    `ALTER DATABASE ${identifier(database)} ALLOW_CONNECTIONS true`,
    `COMMENT ON DATABASE ${identifier(database)} IS ${comment === null ? 'NULL' : literal(comment)}`,
  ];
}

/** Reopens a database. Idempotent. */
export async function openDatabase(
  session: Session,
  { database, comment, timeoutMs }: { database: string; comment: string | null; timeoutMs: number },
): Promise<void> {
  await inTransaction(session, timeoutMs, openingStatements(database, comment));
}

const LOCK_NOT_AVAILABLE = '55P03';

/**
 * Runs the statements in one transaction with a lock timeout: another open transaction that commented on the database, or changed
 * its settings, holds the lock on its row.
 * @throws SafemigrateError `STALL` if the lock was not granted in time; nothing is changed then.
 */
export async function inTransaction(
  session: Session,
  timeoutMs: number,
  statements: readonly string[],
  beforeCommit: () => Promise<void> = async () => {},
): Promise<void> {
  await session.query('BEGIN');
  try {
    await session.query(`SET LOCAL lock_timeout = ${Math.ceil(timeoutMs)}`);
    for (const statement of statements) await session.query(statement);
    await beforeCommit();
    await session.query('COMMIT');
  } catch (error) {
    // The first error counts: after a lost connection this one fails as well.
    await session.query('ROLLBACK').catch(() => {});
    if (sqlstateOf(error) !== LOCK_NOT_AVAILABLE) throw error;
    throw new SafemigrateError('STALL', 'Another transaction holds the lock on the database itself.', {
      cause: error,
      hint: 'It has run COMMENT ON DATABASE or ALTER DATABASE and is still open. This step changed nothing.',
    });
  }
}
