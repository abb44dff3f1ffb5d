import { readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { SafemigrateError } from '../../errors.ts';
import type { Session } from '../../postgres/connection/session.ts';

/*
 * Recovery and the databases whose files were not copied.
 */

/**
 * Recovery continues if WAL refers to missing pages (`ignore_invalid_pages`), since databases that were not copied have none. It
 * reports each of them in the server's log, in English by the settings of sanitizeDataDirectory().
 */
const INVALID_PAGE = /WARNING:\s+page \d+ of relation (\S+) (?:does not exist|is uninitialized)/g;
const OF_DATABASE = /(?:^base|PG_\d+_\d+)\/(\d+)\/\d/;

/** Finds relations (paths of files) with invalid pages in these databases, or in `global`. */
export function invalidRelations(log: string, databases: ReadonlySet<string>): string[] {
  const relations = [...log.matchAll(INVALID_PAGE)].map(([, relation = '']) => relation);
  return relations.filter((relation) => {
    const database = OF_DATABASE.exec(relation)?.[1];
    return database === undefined || databases.has(database);
  });
}

/**
 * Refuses a clone whose recovery found invalid pages in a database that was copied.
 * @param databases OIDs of the databases that were copied.
 * @throws SafemigrateError `CLONE`
 */
export async function refuseInvalidPages(folder: string, databases: ReadonlySet<string>): Promise<void> {
  const relations = invalidRelations(await readFile(path.join(folder, 'log'), 'utf8'), databases);
  if (relations.length === 0) return;
  throw new SafemigrateError(
    'CLONE',
    `The copy of the cluster is damaged: its WAL refers to pages of ${relations.slice(0, 3).join(', ')} that do not exist.`,
    {
      hint: 'The target was not touched. Run it again; if it happens again, choose another method with --clone.',
    },
  );
}

/**
 * Removes the files that recovery has created for databases that were not copied. Without its folder the server reports that such a
 * database does not exist (3D000); with some of the files it would report an invalid data directory.
 *
 * The server must have recovered: then its last checkpoint has written their pages, and no session can change one.
 */
export async function removeRemains(folder: string, databases: ReadonlySet<string>): Promise<void> {
  for (const parent of await databaseFolders(folder))
    for (const name of await readdir(parent))
      if (/^\d+$/.test(name) && !databases.has(name))
        await rm(path.join(parent, name), { recursive: true, force: true });
}

const OTHERS = 'SELECT datname::text AS name FROM pg_database WHERE oid <> ALL ($1::oid[])';

/** Lists the databases that were not copied. @param databases OIDs of those that were. */
export async function namesOfLeftOut(
  session: Session,
  databases: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const rows = await session.query<{ name: string }>(OTHERS, [[...databases]]);
  return new Set(rows.map(({ name }) => name));
}

/** Lists the folders with one subfolder for each database: `base`, and one of each tablespace for each version. */
async function databaseFolders(folder: string): Promise<string[]> {
  const tablespaces = path.join(folder, 'tablespaces');
  const found = [path.join(folder, 'data', 'base')];
  for (const oid of await readdir(tablespaces).catch(() => []))
    for (const name of await readdir(path.join(tablespaces, oid)))
      if (name.startsWith('PG_')) found.push(path.join(tablespaces, oid, name));
  return found;
}
