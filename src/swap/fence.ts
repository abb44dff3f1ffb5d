import { setTimeout as pause } from 'node:timers/promises';
import { SafemigrateError, sqlstateOf } from '../errors.ts';
import { plural } from '../format.ts';
import { inTransaction } from '../ownership/database-access.ts';
import type { Session } from '../postgres/connection/session.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';

/**
 * A database that nobody can connect to, not even a superuser, and that nobody is connected to.
 *
 * Closing the door is one statement, but a backend that is still starting has passed it already and is not yet to be
 * seen under its database: it would write after the fence looks empty. It holds a lock on the database's row, however,
 * from before it looked at the door. So the *barrier* ends whoever is found by either sign, until both find nobody.
 */
export interface Fence {
  readonly database: string;
  readonly oid: number;
  /** Of the database's row as the fence left it: while it is the same, nobody has opened the door. */
  readonly xmin: string;
  /** Sessions that were ended. */
  readonly ended: number;
}

export interface FenceOptions {
  readonly database: string;
  readonly oid: number;
  /**
   * Stands in COMMENT ON DATABASE while the fence does, so that whoever finds it knows whose it is; absent where a mark of
   * ours stands there already.
   */
  readonly mark?: string;
  /** For a lock on the database's row, and for sessions to end. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Closes the database and empties it. If it throws, the door may be closed: opening it again is the caller's, whose undo
 * was registered before.
 * @throws SafemigrateError `SESSIONS` where sessions stay, `PRIVILEGE`, `STALL` where a lock was not had in time.
 */
export async function closeDatabase(session: Session, options: FenceOptions): Promise<Fence> {
  const { database, oid, mark, timeoutMs } = options;
  await inTransaction(session, timeoutMs, [
    ...(mark === undefined ? [] : [`COMMENT ON DATABASE ${identifier(database)} IS ${literal(mark)}`]),
    `ALTER DATABASE ${identifier(database)} ALLOW_CONNECTIONS false`,
  ]);
  const ended = await endEverybody(session, options);
  const row = await readDoor(session, oid);
  if (!row || row.open || row.name !== database) throw reopened(database);
  return { database, oid, xmin: row.xmin, ended };
}

/** Whether nobody has touched the door since. To be asked over any session but one that has it locked itself. */
export async function stillClosed(session: Session, { oid, xmin, database }: Fence): Promise<boolean> {
  const row = await readDoor(session, oid);
  return row !== undefined && !row.open && row.xmin === xmin && row.name === database;
}

export function reopened(database: string): SafemigrateError {
  return new SafemigrateError('REFUSED', `Somebody opened ${database} while it was closed for the swap.`, {
    hint: 'Nothing was swapped, and what was written meanwhile is in it.',
  });
}

const DOOR = `
SELECT datname AS name, datallowconn AS open, xmin::text FROM pg_database WHERE oid = $1`;

async function readDoor(
  session: Session,
  oid: number,
): Promise<{ name: string; open: boolean; xmin: string } | undefined> {
  const [row] = await session.query<{ name: string; open: boolean; xmin: string }>(DOOR, [oid]);
  return row;
}

/**
 * By their database, and by the lock that a starting backend takes on the database (class 1262 is pg_database). Autovacuum,
 * which works for no user, passes a closed door as well, and may be ended by superusers only; it writes nothing of
 * anybody's, and the server ends it itself for CREATE DATABASE and RENAME.
 */
const PRESENT = `
SELECT p.pid, a.usesysid IS NOT NULL AS logged_in
  FROM (SELECT pid FROM pg_stat_activity WHERE datid = $1::oid
         UNION
        SELECT pid FROM pg_locks
         WHERE locktype = 'object' AND classid = 1262 AND objid = $1::oid AND mode = 'RowExclusiveLock') p
  LEFT JOIN pg_stat_activity a ON a.pid = p.pid
 WHERE p.pid <> pg_backend_pid() AND NOT coalesce(a.datid = $1::oid AND a.usesysid IS NULL, false)`;
const END = 'SELECT pg_terminate_backend($1)';
/** Within a transaction the view of the sessions is kept; outside it is fresh each time, but for what a function cached. */
const LOOK_ANEW = 'SELECT pg_stat_clear_snapshot()';
const INSUFFICIENT_PRIVILEGE = '42501';
const POLL_MS = 10;

/** The barrier. @returns how many sessions were ended. */
async function endEverybody(
  session: Session,
  { database, oid, timeoutMs, signal }: FenceOptions,
): Promise<number> {
  const deadline = performance.now() + timeoutMs;
  const ended = new Set<number>();
  for (;;) {
    signal.throwIfAborted();
    await session.query(LOOK_ANEW);
    const present = await session.query<Present>(PRESENT, [oid]);
    if (present.length === 0) return ended.size;
    if (performance.now() > deadline)
      throw new SafemigrateError(
        'SESSIONS',
        `${plural(present.length, 'session')} on ${database} did not end.`,
        {
          hint: `It will be opened again. Their process numbers: ${present.map(({ pid }) => pid).join(', ')}.`,
        },
      );
    for (const each of present) if (await endSession(session, each, database)) ended.add(each.pid);
    await pause(POLL_MS);
  }
}

interface Present {
  pid: number;
  logged_in: boolean;
}

/** Whose a starting one is shows in a moment; autovacuum that starts is gone from here then. */
async function endSession(session: Session, { pid, logged_in }: Present, database: string): Promise<boolean> {
  try {
    await session.query(END, [pid]);
    return true;
  } catch (error) {
    if (sqlstateOf(error) !== INSUFFICIENT_PRIVILEGE) throw error;
    if (!logged_in) return false;
    throw new SafemigrateError('PRIVILEGE', `A session on ${database} may not be ended by this role.`, {
      cause: error,
      hint: 'It will be opened again. Ending sessions of others needs pg_signal_backend; those of superusers, a superuser.',
    });
  }
}
