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
import { inTransaction, openingStatements, reopenTargets } from '../ownership/reopen.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';

/** Time that a server may take to restart, or another one to take over. */
const RESTART_MS = 60_000;

/** The facts that are needed to reopen a target which this run has closed. */
export interface ClosedTarget {
  /** With every host that the user named. */
  readonly settings: ConnectionSettings;
  readonly database: { readonly name: string; readonly oid: number };
  /** The target's own comment. */
  readonly comment: string | null;
  /** Consoles of the PgBouncers whose clients wait in the meantime. */
  readonly consoles: readonly ConnectionSettings[];
  /** The server on which it was closed. */
  readonly server: ServerIdentity;
  readonly run: RunId;
  readonly audit: Audit;
}

/** Formats the statements with which a person reopens the target. */
export function byHand({ database, comment }: ClosedTarget): string {
  return `${openingStatements(database.name, comment).join('; ')};`;
}

/**
 * Reopens the target on the server that its address belongs to now. After a failover that is the new primary: there it is
 * reopened if its mark says that it was replicated closed; on the former primary it stays closed, so that no session writes there.
 * @returns after a failover, what a person has to know.
 * @throws SafemigrateError if it could not be reopened, or another database system answers.
 */
export async function reopenTarget(closed: ClosedTarget): Promise<string | undefined> {
  const { database, comment, server } = closed;
  return withSession(sessionOnPrimary(closed, 'reopen'), async (session) => {
    const now = await readServerIdentity(session);
    if (changedBetween(server, now) !== undefined) await reopenTargets(session);
    else
      await inTransaction(session, openingStatements(database.name, comment)).catch(async (error) => {
        // What kept us from reopening it has probably kept us from closing it, too.
        if (!(await isOpen(session, database))) throw error;
      });
    if (!(await isOpen(session, database)))
      throw new SafemigrateError(
        'TARGET_CHANGED',
        `the server that answers now has no ${database.name} that is open or could be reopened`,
      );
    return movedBetween(server, now) && afterFailover(database.name, session);
  });
}

/**
 * Opens a session on the server that accepts writes now; waits up to a minute for one.
 * @throws SafemigrateError `TARGET_CHANGED` if another database system answers.
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

function afterFailover(name: string, { address: { host, port } }: Session): string {
  return (
    `${name} is open on the new primary, at ${host}:${port}. On the former primary it may still be closed, so that no session ` +
    'writes there. Check that the new primary has all data, then swap again. If the former primary becomes the primary again, ' +
    '`safemigrate clean` reopens it there'
  );
}
