import {
  changedBetween,
  isAnotherSystem,
  movedBetween,
  onPrimary,
  readServerIdentity,
  type ServerIdentity,
} from '../database/server-identity.ts';
import { SafemigrateError } from '../errors.ts';
import { openMaintenanceSessionPatiently } from '../ownership/control-session.ts';
import { openDatabase } from '../ownership/database-access.ts';
import { reopenTargets } from '../ownership/reopen.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';

/** For a lock on the row of a database, and for sessions to end. */
export const LOCK_MS = 5_000;
/** For a server that restarts, or another one that takes over. */
const RESTART_MS = 60_000;

/** A target that a run has closed. */
export interface ClosedTarget {
  /** With every host that the user named. */
  readonly settings: ConnectionSettings;
  readonly database: { readonly name: string; readonly oid: number };
  /** Its own. */
  readonly comment: string | null;
  /** On which it was closed. */
  readonly server: ServerIdentity;
  readonly run: RunId;
  readonly audit: Audit;
}

/**
 * Opens the target where its address leads to now. After a failover that is the server that took over: there it is opened if
 * it came along closed, which its mark tells, and on the former one it stays closed, so that nobody writes there.
 * @returns after a failover, what a person has to know.
 * @throws SafemigrateError where it could not be opened, or where what answers is no server that could have it.
 */
export async function openAgain(closed: ClosedTarget): Promise<string | undefined> {
  const { database, comment, server } = closed;
  const session = await sessionOnPrimary(closed, 'reopen');
  try {
    const now = await readServerIdentity(session);
    if (changedBetween(server, now) !== undefined) await reopenTargets(session);
    else
      await openDatabase(session, { database: database.name, comment, timeoutMs: LOCK_MS }).catch(
        async (error) => {
          // Who has kept us from opening it has kept us from closing it, most likely.
          if (!(await isOpen(session, database))) throw error;
        },
      );
    if (!(await isOpen(session, database))) throw notThere(database.name);
    return movedBetween(server, now) && afterFailover(database.name, session);
  } finally {
    await session.close();
  }
}

/**
 * A session on the server that takes writes now, for which it waits a while.
 * @throws SafemigrateError `TARGET_CHANGED` where another system answers.
 */
export async function sessionOnPrimary(closed: ClosedTarget, purpose: string): Promise<Session> {
  const { run, audit, database, server } = closed;
  const place = { settings: onPrimary(closed.settings), database };
  const session = await openMaintenanceSessionPatiently(place, { run, audit, purpose }, RESTART_MS);
  const now = await readServerIdentity(session);
  if (!isAnotherSystem(server, now)) return session;
  await session.close();
  throw new SafemigrateError(
    'TARGET_CHANGED',
    `${movedBetween(server, now)}: it does not have the database that was closed, and was not touched.`,
  );
}

const OPEN = 'SELECT datallowconn AS open FROM pg_database WHERE oid = $1 AND datname = $2';

async function isOpen(session: Session, { oid, name }: ClosedTarget['database']): Promise<boolean> {
  const [row] = await session.query<{ open: boolean }>(OPEN, [oid, name]);
  return row?.open ?? false;
}

function notThere(name: string): SafemigrateError {
  return new SafemigrateError(
    'TARGET_CHANGED',
    `the server that answers now has no ${name} that is open, or that may be opened`,
  );
}

function afterFailover(name: string, { address: { host, port } }: Session): string {
  return (
    `${name} is open on the server that took over, at ${host}:${port}. On the former one it may still be closed, so that nobody ` +
    'writes there: see that all is there that should be, then swap again. Should the former one be the primary again, ' +
    '`safemigrate clean` opens it there'
  );
}
