import { execFile } from 'node:child_process';
import { realpath, stat, statfs } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { DiskSpace } from '../model/hazard-facts.ts';
import type { Session } from '../postgres/connection/session.ts';
import { mountOf, readMounts } from './mounts.ts';
import type { Target } from './target.ts';

const execute = promisify(execFile);

/**
 * Reads the data directory, and the folder of the database's default tablespace if that is elsewhere. Privileges are checked first,
 * since a refused statement would appear in the server's log.
 */
const DEFAULT_PLACE = `
SELECT CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE') THEN current_setting('data_directory') END AS data_folder,
       pg_has_role('pg_read_server_files', 'USAGE') AND has_function_privilege('pg_stat_file(text)', 'EXECUTE') AS reads_files,
       (SELECT pg_tablespace_location(d.dattablespace) FROM pg_database d WHERE d.oid = $1::oid) AS tablespace`;

/** Timestamps of the data directory, to recognize the same folder from here. */
const FOLDER_TIMES = `SELECT extract(epoch FROM modification)::float8 AS modified FROM pg_stat_file('.')`;

/** Returns null if this machine or this role cannot see it. */
export async function readDiskSpace(session: Session, target: Target): Promise<DiskSpace | null> {
  const [row] =
    (await orUndefined(() =>
      session.query<{ data_folder: string | null; reads_files: boolean; tablespace: string | null }>(
        DEFAULT_PLACE,
        [target.database.oid],
      ),
    )) ?? [];
  if (!row?.data_folder || !row.reads_files) return null;
  const folders = [row.data_folder, ...(row.tablespace ? [row.tablespace] : [])];
  const here = await resolveHere(session, target, folders);
  const place = here?.at(-1);
  const freeBytes = place === undefined ? null : await freeSpace([place]);
  return place === undefined || freeBytes === null
    ? null
    : { freeBytes, compressRatio: await compressRatioOf(place) };
}

const DATA_FOLDER = `
SELECT current_setting('data_directory') AS folder
 WHERE pg_has_role('pg_read_all_settings', 'USAGE') AND pg_has_role('pg_read_server_files', 'USAGE')
   AND has_function_privilege('pg_stat_file(text)', 'EXECUTE')`;

/** Finds the folder of the server's WAL; null if this machine or this role cannot see it. */
export async function findWalFolder(
  session: Session,
  target: Pick<Target, 'settings'>,
): Promise<string | null> {
  const [row] = (await orUndefined(() => session.query<{ folder: string }>(DATA_FOLDER))) ?? [];
  const here = row && (await resolveHere(session, target, [row.folder, `${row.folder}/pg_wal`]));
  return here?.at(-1) ?? null;
}

/**
 * Resolves symbolic links in the folders' paths, which the server cannot do. null unless the data directory, the first of them, is
 * proved to be on this machine (the same path may exist on both).
 */
export async function resolveHere(
  session: Session,
  target: Pick<Target, 'settings'>,
  folders: string[],
): Promise<string[] | null> {
  const host = target.settings.hosts[0]?.host ?? '';
  if (!host.startsWith('/') && !['localhost', '127.0.0.1', '::1'].includes(host)) return null;
  const [there] = (await orUndefined(() => session.query<{ modified: number }>(FOLDER_TIMES))) ?? [];
  const [dataFolder = ''] = folders;
  const here = await orUndefined(() => stat(dataFolder));
  if (!there || !here || Math.floor(here.mtimeMs / 1000) !== Math.floor(there.modified)) return null;
  return (await orUndefined(() => Promise.all(folders.map((folder) => realpath(folder))))) ?? null;
}

/** Reads the bytes free for an ordinary user on the fullest of their file systems; null if one cannot be read. */
export async function freeSpace(folders: string[]): Promise<number | null> {
  const spaces = await orUndefined(() => Promise.all(folders.map((folder) => statfs(folder))));
  return spaces ? Math.min(...spaces.map(({ bavail, bsize }) => bavail * bsize)) : null;
}

async function compressRatioOf(folder: string): Promise<number> {
  const mount = mountOf(folder, await readMounts());
  if (mount?.type !== 'zfs') return 1;
  const words = ['get', '-H', '-o', 'value', 'compressratio', mount.source];
  const found = await orUndefined(() => execute('zfs', words));
  return Math.max(1, Number.parseFloat(found?.stdout ?? '') || 1);
}

/** Returns undefined instead of throwing. */
export async function orUndefined<T>(query: () => Promise<T>): Promise<T | undefined> {
  try {
    return await query();
  } catch {
    return undefined;
  }
}
