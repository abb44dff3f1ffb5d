import { changedBetween, readServerIdentity, type ServerIdentity } from '../database/server-identity.ts';
import { SafemigrateError } from '../errors.ts';
import { inTransaction } from '../ownership/database-access.ts';
import type { Session } from '../postgres/connection/session.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';
import { type Fence, reopened, stillClosed } from './fence.ts';

export interface DatabaseRename {
  /** The server, as it was before the target was closed. */
  readonly server: ServerIdentity;
  /** The target, closed and empty. */
  readonly original: Fence;
  /** What takes its place: closed and empty as well. */
  readonly successor: Fence;
  /** The name that the original gets. */
  readonly keptAs: string;
  /** Stands in the comment of the original from then on. */
  readonly originalMark: string;
  /** The target's own comment, for the successor. */
  readonly comment: string | null;
  readonly timeoutMs: number;
}

/**
 * Gives the successor the target's name in one transaction: whoever looks sees the one or the other, and a server that
 * is killed comes back with the one or the other. Right before its end a second session looks whether both doors are
 * still as they were closed. Looking only before the transaction would lose a write: somebody opens the target, a client
 * writes and leaves, and the rename does not notice. The same session tells whether the target's address still leads to the
 * server that the rename is on: after a failover a server that does not know of it yet would rename for nobody.
 * @param witness a session of its own, just opened; what the first one has changed it must not see.
 * @throws SafemigrateError `REFUSED` where one of these is not so; nothing is renamed then.
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

/** Renaming the current database is not allowed, so the session sits in another one. */
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

/** What a COMMIT whose answer was lost has done, by who has the name now. */
export async function wasRenamed(
  session: Session,
  { original, successor }: Pick<DatabaseRename, 'original' | 'successor'>,
): Promise<boolean> {
  const nameOf = async (oid: number) => (await session.query<{ name: string }>(NAMES, [oid]))[0]?.name;
  const [first, second] = [await nameOf(original.oid), await nameOf(successor.oid)];
  if (second === original.database) return true;
  if (first === original.database) return false;
  throw new SafemigrateError('TARGET_CHANGED', `Neither database has the name ${original.database} now.`, {
    hint: `The original is ${first ?? 'gone'}, the migrated one is ${second ?? 'gone'}: somebody renamed them. Look at both.`,
  });
}
