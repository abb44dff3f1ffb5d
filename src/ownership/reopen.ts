import { type InspectOptions, type Visit, visitTarget } from '../database/inspect.ts';
import { onPrimary } from '../database/server-identity.ts';
import { SafemigrateError, sqlstateOf } from '../errors.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';
import { openMaintenanceSession } from './control-session.ts';
import { type OwnedDatabase, ownedDatabases } from './owned.ts';
import type { RunId } from './run-id.ts';

/**
 * Reopens the targets that a dead run has closed for a swap, and restores their comments. Such a target was not renamed, and is
 * unchanged. Those of a living run stay closed.
 * @param session in another database of that server.
 */
export async function reopenTargets(session: Session): Promise<OwnedDatabase[]> {
  const found = await ownedDatabases(session, { sizes: false });
  const closed = found.filter(
    ({ ownershipStatus, owning }) => ownershipStatus === 'closed' && owning === 'dead',
  );
  for (const { name, mark } of closed)
    await inTransaction(session, openingStatements(name, mark?.comment ?? null));
  return closed;
}

/** object_not_in_prerequisite_state: the database does not accept connections. */
const CLOSED = '55000';

/**
 * Like visitTarget(), but first reopens a target that a dead run has left closed.
 * @param onReopened gets a sentence about a target that was reopened.
 */
export async function visitOrReopen(
  settings: ConnectionSettings,
  source: string,
  options: InspectOptions & { readonly run?: RunId },
  onReopened: (words: string) => void,
): Promise<Visit> {
  try {
    return await visitTarget(settings, source, options);
  } catch (error) {
    if (!(error instanceof SafemigrateError) || error.sqlstate !== CLOSED) throw error;
    const place = { settings: onPrimary(settings), database: { name: settings.database } };
    const opened = await withSession(
      openMaintenanceSession(place, { ...options, purpose: 'recover' }),
      reopenTargets,
    );
    if (opened.length === 0) throw error;
    const names = opened.map(({ name }) => name).join(', ');
    const paused = opened.map(whoMayWait).join('');
    onReopened(`the swap of a run that was cut off had left ${names} closed; it is open again${paused}`);
    return visitTarget(settings, source, options);
  }
}

/** Describes the PgBouncers whose clients may still wait for a reopened target; empty if there are none. */
export function whoMayWait({ mark }: Pick<OwnedDatabase, 'mark'>): string {
  const consoles = mark?.pgbouncer ?? [];
  if (consoles.length === 0) return '';
  return `; PgBouncer at ${consoles.join(', ')} may be paused: \`safemigrate clean --pgbouncer URL\` resumes it`;
}

/** Lists the statements that reopen a database which was closed for a swap, and restore its comment. They can be repeated. */
export function openingStatements(database: string, comment: string | null): string[] {
  return [
    `ALTER DATABASE ${identifier(database)} ALLOW_CONNECTIONS true`,
    `COMMENT ON DATABASE ${identifier(database)} IS ${comment === null ? 'NULL' : literal(comment)}`,
  ];
}

/** Time limit for the lock on a database's row, and for its sessions to end. */
export const LOCK_TIMEOUT_MS = 5_000;
const LOCK_NOT_AVAILABLE = '55P03';

/**
 * Runs the statements in one transaction with a lock timeout: another open transaction that commented on the database, or changed
 * its settings, holds the lock on its row.
 * @throws SafemigrateError `STALL` if the lock was not granted in time; nothing is changed then.
 */
export async function inTransaction(
  session: Session,
  statements: readonly string[],
  beforeCommit: () => Promise<void> = async () => {},
  timeoutMs: number = LOCK_TIMEOUT_MS,
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
