import { readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import type { DatabaseFacts } from '../../database/target.ts';
import { SafemigrateError } from '../../errors.ts';
import { plural } from '../../format.ts';
import type { Caveat } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import { literal } from '../../postgres/sql/quote.ts';

const PREPARED = `
SELECT p.gid, p.database, d.oid::text
  FROM pg_prepared_xacts p JOIN pg_database d ON d.datname = p.database
 ORDER BY p.database, p.prepared`;

// The copy of a closed database: one that a swap of another run closed, for example.
const OPEN = 'UPDATE pg_database SET datallowconn = true WHERE datname = $1 AND NOT datallowconn';

// Not by pg_hba.conf, since databases that the command creates later must be open.
const CLOSE_OTHERS = `
UPDATE pg_database SET datallowconn = false
 WHERE datallowconn AND datname <> ALL ($1::text[])`;

/**
 * Turns a cluster that has just recovered into a clone of one database.
 * @param copied OIDs of the databases whose files the clone has; null for all.
 * @param others names of other databases that the command uses; the rest is closed.
 * @param enter opens a superuser's session in one of its databases.
 */
export async function prepareStartedServer(
  control: Session,
  { name, unloggedTables }: Pick<DatabaseFacts, 'name' | 'unloggedTables'>,
  copied: ReadonlySet<string> | null,
  others: readonly string[],
  enter: (database: string) => Promise<Session>,
): Promise<Caveat[]> {
  const caveats: Caveat[] = [];
  const found = await control.query<{ gid: string; database: string; oid: string }>(PREPARED);
  // Prepared transactions of databases that were left out hold no lock on anything here.
  const prepared = found.filter(({ oid }) => copied?.has(oid) ?? true);
  for (const place of new Set(prepared.map((transaction) => transaction.database))) {
    const here = prepared.filter((transaction) => transaction.database === place);
    await control.query(OPEN, [place]);
    await withSession(enter(place), async (session) => {
      for (const { gid } of here) await session.query(`ROLLBACK PREPARED ${literal(gid)}`);
    });
  }
  if (prepared.length > 0)
    caveats.push({
      path: 'clone',
      kind: 'estimate',
      reason:
        `${plural(prepared.length, 'prepared transaction')} of the target's were rolled back in the clone: ` +
        'on the target their locks would be in the way',
    });
  if (unloggedTables > 0)
    caveats.push({
      path: 'clone',
      kind: 'estimate',
      reason: `${plural(unloggedTables, 'unlogged table')} of the target's are empty in the clone, as after a crash`,
    });
  await control.query(CLOSE_OTHERS, [[name, 'postgres', 'template1', ...others]]);
  return caveats;
}

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
