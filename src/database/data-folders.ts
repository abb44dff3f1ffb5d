import { realpath, stat, statfs } from 'node:fs/promises';
import type { Session } from '../postgres/connection/session.ts';
import type { Target } from './target.ts';

/**
 * The data directory, and where the database's default tablespace lies if that is elsewhere. The role's rights are asked
 * beforehand: a statement that is refused stands in the server's log.
 */
const DEFAULT_PLACE = `
SELECT CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE') THEN current_setting('data_directory') END AS data_folder,
       pg_has_role('pg_read_server_files', 'USAGE') AND has_function_privilege('pg_stat_file(text)', 'EXECUTE') AS reads_files,
       (SELECT pg_tablespace_location(d.dattablespace) FROM pg_database d WHERE d.oid = $1::oid) AS tablespace`;

/** The data directory's own times, to recognise the same folder from here. */
const FOLDER_TIMES = `SELECT extract(epoch FROM modification)::float8 AS modified FROM pg_stat_file('.')`;

/**
 * Bytes free for an ordinary user on the file system where what the database gets anew will lie: its default tablespace.
 * null where that cannot be seen from this machine, or by this role.
 */
export async function freeDiskBytes(session: Session, target: Target): Promise<number | null> {
  const [row] =
    (await attempt(() =>
      session.query<{ data_folder: string | null; reads_files: boolean; tablespace: string | null }>(
        DEFAULT_PLACE,
        [target.database.oid],
      ),
    )) ?? [];
  if (!row?.data_folder || !row.reads_files) return null;
  const folders = [row.data_folder, ...(row.tablespace ? [row.tablespace] : [])];
  const here = await resolveHere(session, target, folders);
  const place = here?.at(-1);
  return place === undefined ? null : freeSpace([place]);
}

/**
 * The folders without symbolic links, which mounts know nothing of; the server itself cannot resolve them. Only where
 * its data directory, the first of them, is provably this machine's (the same path may exist on both), else null.
 */
export async function resolveHere(
  session: Session,
  target: Pick<Target, 'settings'>,
  folders: string[],
): Promise<string[] | null> {
  const host = target.settings.hosts[0]?.host ?? '';
  if (!host.startsWith('/') && !['localhost', '127.0.0.1', '::1'].includes(host)) return null;
  const [there] = (await attempt(() => session.query<{ modified: number }>(FOLDER_TIMES))) ?? [];
  const [dataFolder = ''] = folders;
  const here = await attempt(() => stat(dataFolder));
  if (!there || !here || Math.floor(here.mtimeMs / 1000) !== Math.floor(there.modified)) return null;
  return (await attempt(() => Promise.all(folders.map((folder) => realpath(folder))))) ?? null;
}

/** Bytes free for an ordinary user on the fullest of their file systems; null where one cannot be asked. */
export async function freeSpace(folders: string[]): Promise<number | null> {
  const spaces = await attempt(() => Promise.all(folders.map((folder) => statfs(folder))));
  return spaces ? Math.min(...spaces.map(({ bavail, bsize }) => bavail * bsize)) : null;
}

async function attempt<T>(query: () => Promise<T>): Promise<T | undefined> {
  try {
    return await query();
  } catch {
    return undefined;
  }
}
