import type { Session } from '../postgres/connection/session.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';
import { formatMark, type Mark, parseMark } from './mark.ts';
import { type OwnedDatabase, ownedDatabases } from './owned.ts';
import { inTransaction } from './reopen.ts';

type CutOver = NonNullable<Mark['cutOver']>;

const COMMENT = `
SELECT datname::text AS name, shobj_description(oid, 'pg_database') AS comment FROM pg_database WHERE oid = $1`;

/** Reads whether an online swap waits for the order to cut over. @param clone OID of the database that its mark is on. */
export async function readCutOver(session: Session, clone: number): Promise<CutOver | undefined> {
  return (await readMark(session, clone))?.mark.cutOver;
}

/** Writes it into the mark of the clone, so that the order can be given from any machine. */
export async function writeCutOver(session: Session, clone: number, cutOver: CutOver): Promise<void> {
  const found = await readMark(session, clone);
  if (!found) return;
  const mark = literal(formatMark({ ...found.mark, cutOver }));
  await inTransaction(session, [`COMMENT ON DATABASE ${identifier(found.name)} IS ${mark}`]);
}

async function readMark(session: Session, clone: number): Promise<{ name: string; mark: Mark } | undefined> {
  const [row] = await session.query<{ name: string; comment: string | null }>(COMMENT, [clone]);
  const mark = parseMark(row?.comment ?? null);
  return row && typeof mark === 'object' && mark.role === 'clone' ? { name: row.name, mark } : undefined;
}

/** Lists the clones of online swaps that wait for the order to cut over. */
export async function postponedClones(session: Session): Promise<OwnedDatabase[]> {
  const databases = await ownedDatabases(session, { sizes: false });
  return databases.filter(isPostponed);
}

export function isPostponed({ mark, ownershipStatus, owning }: OwnedDatabase): boolean {
  return ownershipStatus === 'marked' && owning !== 'dead' && mark?.cutOver === 'postponed';
}
