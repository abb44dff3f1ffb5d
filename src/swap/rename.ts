import { changedBetween, readServerIdentity, type ServerIdentity } from '../database/server-identity.ts';
import { SafemigrateError } from '../errors.ts';
import { inTransaction } from '../ownership/database-access.ts';
import type { Session } from '../postgres/connection/session.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';
import { type Fence, reopened, stillClosed } from './fence.ts';

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
  readonly timeoutMs: number;
}

/**
 * Gives the successor the target's name in one transaction: every observer sees the old state or the new one, and a server
 * that is killed comes back with the old one or the new one. Right before the COMMIT a second session checks that both fences
 * are intact. Checking only before the transaction would lose a write: somebody reopens the target, a client writes and
 * leaves, and the rename does not notice. The same session checks that the target's address still belongs to the server of the
 * rename: after a failover, a former primary that does not know of it yet would rename unused databases.
 * @param witness a session of its own, just opened, which does not see the uncommitted changes of the first one.
 * @throws SafemigrateError `REFUSED` if one of these checks fails; nothing is renamed then.
 */
export async function renameInto(session: Session, witness: Session, rename: DatabaseRename): Promise<void> {
  const { server, original, successor, timeoutMs } = rename;
  await inTransaction(session, timeoutMs, renamingStatements(rename), async () => {
    for (const each of [session, witness]) {
      const changed = changedBetween(server, await readServerIdentity(each));
      if (changed !== undefined) throw elsewhere(changed);
    }
    for (const fence of [original, successor])
      if (!(await stillClosed(witness, fence))) throw reopened(fence.database);
  });
}

function elsewhere(changed: string): SafemigrateError {
  return new SafemigrateError('REFUSED', `Nothing was renamed: ${changed}.`);
}

/** Lists the statements of the rename. A session cannot rename its own database, so they are sent from another one. */
export function renamingStatements({
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
