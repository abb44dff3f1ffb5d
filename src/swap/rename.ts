import type { CloneContext } from '../clone/method.ts';
import { changedBetween, readServerIdentity, type ServerIdentity } from '../database/server-identity.ts';
import { SafemigrateError } from '../errors.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import { runIsAlive } from '../ownership/owned.ts';
import { inTransaction } from '../ownership/reopen.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { waitUntil, withSession } from '../postgres/session-helpers.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';
import { type Fence, reopened, stillClosed } from './fence.ts';
import { type ClosedTarget, sessionOnPrimary } from './reopen-target.ts';

/** The run, the database to exchange, and the session that holds the run's lock in another database. */
export type SwapSubject = Omit<CloneContext, 'options' | 'rehearsal' | 'source'> & {
  /** With every host that the user named: after a failover the target is on another one. */
  readonly settings: ConnectionSettings;
};

export interface DatabaseRename {
  /** Identity of the server before the target was closed. */
  readonly server: ServerIdentity;
  /** The target: closed, without sessions. */
  readonly original: Fence;
  /** The database that takes its place: closed, without sessions. */
  readonly successor: Fence;
  /** The name that the original gets. */
  readonly keptAs: string;
  /** Mark that the original carries in its comment from then on. */
  readonly originalMark: string;
  /** The target's own comment, for the successor. */
  readonly comment: string | null;
}

/**
 * Gives the successor the target's name in one transaction: every observer sees the old state or the new one, and a server
 * that is killed comes back with the old one or the new one. Right before the COMMIT a second session checks that both fences
 * are intact. Checking only before the transaction would lose a write: somebody reopens the target, a client writes and
 * leaves, and the rename does not notice. The same session checks that the target's address still belongs to the server of the
 * rename: after a failover, a former primary that does not know of it yet would rename unused databases.
 * @param witness a session of its own, opened since the target is closed, which does not see the uncommitted changes of the first one.
 * @throws SafemigrateError `REFUSED` if one of these checks fails; nothing is renamed then.
 */
export async function renameInto(session: Session, witness: Session, rename: DatabaseRename): Promise<void> {
  const { server, original, successor } = rename;
  await inTransaction(session, renamingStatements(rename), async () => {
    for (const now of await Promise.all([session, witness].map(readServerIdentity))) {
      const changed = changedBetween(server, now);
      if (changed !== undefined) throw new SafemigrateError('REFUSED', `Nothing was renamed: ${changed}.`);
    }
    for (const fence of [original, successor])
      if (!(await stillClosed(witness, fence))) throw reopened(fence.database);
  });
}

/** Lists the statements of the rename. A session cannot rename its own database, so they are sent from another one. */
function renamingStatements({
  original,
  successor,
  keptAs,
  originalMark,
  comment,
}: DatabaseRename): string[] {
  const name = identifier(original.database);
  return [
    `ALTER DATABASE ${name} RENAME TO ${identifier(keptAs)}`,
    `ALTER DATABASE ${identifier(successor.database)} RENAME TO ${name}`,
    `COMMENT ON DATABASE ${identifier(keptAs)} IS ${literal(originalMark)}`,
    `COMMENT ON DATABASE ${name} IS ${comment === null ? 'NULL' : literal(comment)}`,
    `ALTER DATABASE ${name} ALLOW_CONNECTIONS true`,
  ];
}

const NAMES = 'SELECT datname AS name FROM pg_database WHERE oid = $1';

/** Finds out, by the names, whether a COMMIT whose answer was lost has renamed the databases. */
export async function wasRenamed(
  session: Session,
  { original, successor }: Pick<DatabaseRename, 'original' | 'successor'>,
): Promise<boolean> {
  const nameOf = async (oid: number) => (await session.query<{ name: string }>(NAMES, [oid]))[0]?.name;
  const [first, second] = [await nameOf(original.oid), await nameOf(successor.oid)];
  if (second === original.database) return true;
  if (first === original.database) return false;
  throw new SafemigrateError('TARGET_CHANGED', `Neither database has the name ${original.database} now.`, {
    hint: `The original is ${first ?? 'gone'}, the migrated one is ${second ?? 'gone'}: somebody renamed them. Check both.`,
  });
}

/** Time that the backend of a lost connection may take to end. */
const BACKEND_EXIT_MS = 60_000;
const POLL_MS = 50;

/** Opens the second session of a rename, after the target was closed: its address may lead to another server by then. */
export function openWitness({ target, run, audit }: SwapSubject): Promise<Session> {
  return openMaintenanceSession(target, { run, audit, purpose: 'witness' });
}

/**
 * Renames, and finds out what a COMMIT has done whose answer was lost, with the connection or to a cancel that came too late.
 * @param witness from openWitness(). It is closed afterwards.
 * @throws what kept the COMMIT from being done: nothing is renamed then.
 */
export async function commitRename(
  subject: SwapSubject,
  closed: ClosedTarget,
  rename: DatabaseRename,
  witness: Session,
): Promise<void> {
  const { control } = subject;
  try {
    await renameInto(control, witness, rename);
  } catch (error) {
    const refused = error instanceof SafemigrateError && ['REFUSED', 'STALL'].includes(error.code);
    if (refused) throw error;
    const committed = await withSession(sessionOnPrimary(closed, 'witness'), async (session) => {
      if (error instanceof SafemigrateError && error.code === 'LOST') await backendEnds(session, subject);
      return wasRenamed(session, rename);
    });
    if (!committed) throw error;
  } finally {
    await witness.close();
  }
}

/** The backend may still wait in the COMMIT for a synchronous standby; its advisory lock shows that it lives. */
async function backendEnds(session: Session, { run, lockDatabaseOid }: SwapSubject): Promise<void> {
  const hasEnded = async () => !(await runIsAlive(session, run, lockDatabaseOid));
  await waitUntil(hasEnded, { everyMs: POLL_MS, timeoutMs: BACKEND_EXIT_MS });
}
