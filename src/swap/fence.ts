import { setTimeout as delay } from 'node:timers/promises';
import { SafemigrateError, sqlstateOf } from '../errors.ts';
import { plural } from '../format.ts';
import { inTransaction, LOCK_TIMEOUT_MS } from '../ownership/reopen.ts';
import { ownBackendPids } from '../postgres/connection/own-backends.ts';
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
  /** Number of sessions of others that were terminated. */
  readonly ended: number;
}

/**
 * Closes the database to new connections and terminates its sessions. If it throws, the database may be closed: the caller
 * reopens it, by an undo that it registered before.
 * @param mark for COMMENT ON DATABASE while the database is fenced, so that its owner can be found. Null if the database has a
 * mark of ours already.
 * @param timeoutMs limit for the lock on the database's row, and for its sessions to end.
 * @param spared sessions that may stay.
 * @throws SafemigrateError `SESSIONS` if sessions stay, `PRIVILEGE`, `STALL` if the lock was not granted in time.
 */
export async function closeDatabase(
  session: Session,
  { database, oid }: Pick<Fence, 'database' | 'oid'>,
  mark: string | null,
  signal: AbortSignal,
  timeoutMs: number = LOCK_TIMEOUT_MS,
  spared: Spared = NOBODY,
): Promise<Fence> {
  const statements = [
    ...(mark === null ? [] : [`COMMENT ON DATABASE ${identifier(database)} IS ${literal(mark)}`]),
    `ALTER DATABASE ${identifier(database)} ALLOW_CONNECTIONS false`,
  ];
  await inTransaction(session, statements, undefined, timeoutMs);
  const ended = await terminateSessions(session, { database, oid }, signal, timeoutMs, spared);
  const row = await readRow(session, oid);
  if (!row || row.open || row.name !== database) throw reopened(database);
  return { database, oid, xmin: row.xmin, ended };
}

/** Sessions in a fenced database that write nothing there: our own, and the one that sends a slot's changes. */
export interface Spared {
  readonly pids: readonly number[];
  readonly slot: string | null;
}

const NOBODY: Spared = { pids: [], slot: null };

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

async function readRow(session: Session, oid: number) {
  const [row] = await session.query<{ name: string; open: boolean; xmin: string }>(ROW, [oid]);
  return row;
}

/**
 * Finds starting backends by the lock that they take on their database (class 1262 is pg_database). It is read before the sessions
 * are: a backend gives it up only after it has become one, so it is seen by one sign or the other.
 * Within a transaction, or a function, the statistics views keep their first snapshot.
 */
const STARTING = `
SELECT pg_stat_clear_snapshot()::text AS cleared,
       ARRAY(SELECT pid FROM pg_locks
              WHERE locktype = 'object' AND classid = 1262 AND objid = $1::oid AND mode = 'RowExclusiveLock') AS pids`;
/**
 * Finds backends by their database, and those that were starting.
 * Autovacuum, which works for no user, ignores the fence and can be terminated by superusers only; it writes no user's data,
 * and the server itself ends it for CREATE DATABASE and RENAME.
 */
const PRESENT = `
SELECT p.pid, a.usesysid IS NOT NULL AS "loggedIn"
  FROM (SELECT pid FROM pg_stat_activity WHERE datid = $1::oid UNION SELECT unnest($4::int[])) p
  LEFT JOIN pg_stat_activity a ON a.pid = p.pid
 WHERE p.pid <> pg_backend_pid() AND NOT coalesce(a.datid = $1::oid AND a.usesysid IS NULL, false)
   AND p.pid <> ALL ($2::int[])
   AND NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.slot_name = $3 AND s.active_pid = p.pid)`;
const TERMINATE = 'SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid';
const INSUFFICIENT_PRIVILEGE = '42501';
/** Sessions that do nothing end within a few milliseconds, for which clients wait. */
const QUICK_POLLS = 20;
const QUICK_POLL_MS = 2;
const POLL_MS = 10;

/** The barrier. @returns the number of sessions of others that were terminated. */
export async function terminateSessions(
  session: Session,
  { database, oid }: Pick<Fence, 'database' | 'oid'>,
  signal: AbortSignal,
  timeoutMs: number = LOCK_TIMEOUT_MS,
  { pids, slot }: Spared = NOBODY,
): Promise<number> {
  const deadline = performance.now() + timeoutMs;
  const ended = new Set<number>();
  const ours = ownBackendPids(session.address);
  for (let polls = 0; ; polls++) {
    signal.throwIfAborted();
    const [starting] = await session.query<{ pids: number[] }>(STARTING, [oid]);
    const present = await session.query<Backend>(PRESENT, [oid, pids, slot, starting?.pids ?? []]);
    if (present.length === 0) return ended.size;
    if (performance.now() > deadline)
      throw new SafemigrateError(
        'SESSIONS',
        `${plural(present.length, 'session')} on ${database} did not end.`,
        {
          hint: `It will be reopened. Their process IDs: ${present.map(({ pid }) => pid).join(', ')}.`,
        },
      );
    for (const pid of await terminate(session, present, database)) if (!ours.has(pid)) ended.add(pid);
    await delay(polls < QUICK_POLLS ? QUICK_POLL_MS : POLL_MS);
  }
}

interface Backend {
  readonly pid: number;
  /** One without a user may still be starting: the next round shows whose it is, or that it is autovacuum. */
  readonly loggedIn: boolean;
}

/** Terminates backends, all at once if the role may. @returns the process ids of those that it could terminate. */
async function terminate(
  session: Session,
  backends: readonly Backend[],
  database: string,
): Promise<number[]> {
  const pids = backends.map(({ pid }) => pid);
  try {
    await session.query(TERMINATE, [pids]);
    return pids;
  } catch (error) {
    if (sqlstateOf(error) !== INSUFFICIENT_PRIVILEGE) throw error;
    const [only, ...others] = backends;
    if (others.length > 0) {
      const one = async (each: Backend) => terminate(session, [each], database);
      return (await Promise.all(backends.map(one))).flat();
    }
    if (!only?.loggedIn) return [];
    throw new SafemigrateError('PRIVILEGE', `This role may not terminate a session on ${database}.`, {
      cause: error,
      hint: 'It will be reopened. Terminating sessions of others requires pg_signal_backend; those of superusers, a superuser.',
    });
  }
}
