import { setTimeout as delay } from 'node:timers/promises';
import { SafemigrateError, sqlstateOf } from '../errors.ts';
import { plural } from '../format.ts';
import { inTransaction } from '../ownership/database-access.ts';
import type { Session } from '../postgres/connection/session.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';

/**
 * A fenced database: no session can connect to it, not even a superuser, and no session is connected to it.
 *
 * One statement forbids connections, but a backend that is still starting has passed that check already and is not yet listed
 * under its database: it would write after the fence looks empty. Such a backend holds a lock on the database, however,
 * which it took before the check. So the *barrier* terminates the backends found by either sign, until both find none.
 */
export interface Fence {
  readonly database: string;
  readonly oid: number;
  /** xmin of the database's row in pg_database, as the fence left it. While it is unchanged, the database was not reopened. */
  readonly xmin: string;
  /** Number of sessions that were terminated. */
  readonly ended: number;
}

export interface FenceOptions {
  readonly database: string;
  readonly oid: number;
  /**
   * Mark that COMMENT ON DATABASE holds while the database is fenced, so that whoever finds it knows its owner. Absent if the
   * database carries a mark of ours already.
   */
  readonly mark?: string;
  /** Time limit for the lock on the database's row, and for its sessions to end. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Closes the database to new connections and terminates its sessions. If it throws, the database may be closed: the caller
 * reopens it, by an undo that it registered before.
 * @throws SafemigrateError `SESSIONS` if sessions stay, `PRIVILEGE`, `STALL` if the lock was not granted in time.
 */
export async function closeDatabase(session: Session, options: FenceOptions): Promise<Fence> {
  const { database, oid, mark, timeoutMs } = options;
  await inTransaction(session, timeoutMs, [
    ...(mark === undefined ? [] : [`COMMENT ON DATABASE ${identifier(database)} IS ${literal(mark)}`]),
    `ALTER DATABASE ${identifier(database)} ALLOW_CONNECTIONS false`,
  ]);
  const ended = await terminateSessions(session, options);
  const row = await readRow(session, oid);
  if (!row || row.open || row.name !== database) throw reopened(database);
  return { database, oid, xmin: row.xmin, ended };
}

/** Says whether the fence is intact. Ask over a session other than the one that has changed the database's row itself. */
export async function stillClosed(session: Session, { oid, xmin, database }: Fence): Promise<boolean> {
  const row = await readRow(session, oid);
  return row !== undefined && !row.open && row.xmin === xmin && row.name === database;
}

export function reopened(database: string): SafemigrateError {
  return new SafemigrateError('REFUSED', `Somebody reopened ${database} while it was closed for the swap.`, {
    hint: 'Nothing was swapped, and it has what was written in the meantime.',
  });
}

const ROW = `
SELECT datname AS name, datallowconn AS open, xmin::text FROM pg_database WHERE oid = $1`;

async function readRow(
  session: Session,
  oid: number,
): Promise<{ name: string; open: boolean; xmin: string } | undefined> {
  const [row] = await session.query<{ name: string; open: boolean; xmin: string }>(ROW, [oid]);
  return row;
}

/**
 * Finds backends by their database, and by the lock that a starting backend takes on it (class 1262 is pg_database).
 * Autovacuum, which works for no user, ignores the fence and can be terminated by superusers only; it writes no user's data,
 * and the server itself ends it for CREATE DATABASE and RENAME.
 */
const PRESENT = `
SELECT p.pid, a.usesysid IS NOT NULL AS logged_in
  FROM (SELECT pid FROM pg_stat_activity WHERE datid = $1::oid
         UNION
        SELECT pid FROM pg_locks
         WHERE locktype = 'object' AND classid = 1262 AND objid = $1::oid AND mode = 'RowExclusiveLock') p
  LEFT JOIN pg_stat_activity a ON a.pid = p.pid
 WHERE p.pid <> pg_backend_pid() AND NOT coalesce(a.datid = $1::oid AND a.usesysid IS NULL, false)`;
const TERMINATE = 'SELECT pg_terminate_backend($1)';
/** Within a transaction, or a function, the statistics views keep their first snapshot. */
const CLEAR_SNAPSHOT = 'SELECT pg_stat_clear_snapshot()';
const INSUFFICIENT_PRIVILEGE = '42501';
const POLL_MS = 10;

/** The barrier. @returns the number of sessions that were terminated. */
async function terminateSessions(
  session: Session,
  { database, oid, timeoutMs, signal }: FenceOptions,
): Promise<number> {
  const deadline = performance.now() + timeoutMs;
  const ended = new Set<number>();
  for (;;) {
    signal.throwIfAborted();
    await session.query(CLEAR_SNAPSHOT);
    const present = await session.query<Present>(PRESENT, [oid]);
    if (present.length === 0) return ended.size;
    if (performance.now() > deadline)
      throw new SafemigrateError(
        'SESSIONS',
        `${plural(present.length, 'session')} on ${database} did not end.`,
        {
          hint: `It will be reopened. Their process IDs: ${present.map(({ pid }) => pid).join(', ')}.`,
        },
      );
    for (const each of present) if (await terminate(session, each, database)) ended.add(each.pid);
    await delay(POLL_MS);
  }
}

interface Present {
  pid: number;
  logged_in: boolean;
}

/** A backend without a user may still be starting: the next round shows whose it is, or that it is autovacuum. */
async function terminate(session: Session, { pid, logged_in }: Present, database: string): Promise<boolean> {
  try {
    await session.query(TERMINATE, [pid]);
    return true;
  } catch (error) {
    if (sqlstateOf(error) !== INSUFFICIENT_PRIVILEGE) throw error;
    if (!logged_in) return false;
    throw new SafemigrateError('PRIVILEGE', `This role may not terminate a session on ${database}.`, {
      cause: error,
      hint: 'It will be reopened. Terminating sessions of others requires pg_signal_backend; those of superusers, a superuser.',
    });
  }
}
