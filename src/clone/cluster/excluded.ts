import path from 'node:path';

/**
 * Lists what is not copied of a data directory: files of the running server, what the documentation of base backups says to
 * exclude, and logs. Paths are relative to the data directory.
 */

/** Folders that must exist, and that a server fills itself. pg_wal is copied separately. */
const EMPTIED = new Set([
  'pg_dynshmem',
  'pg_notify',
  'pg_replslot',
  'pg_serial',
  'pg_snapshots',
  'pg_stat_tmp',
  'pg_subtrans',
  'pg_wal',
]);

const AT_TOP = new Set([
  'postmaster.opts',
  // Our own backup writes its own.
  'backup_label',
  'backup_label.old',
  'tablespace_map',
  'tablespace_map.old',
  'backup_manifest',
  'current_logfiles',
  'current_logfiles.tmp',
  'postgresql.auto.conf.tmp',
  // The copy of a standby is to be a primary.
  'standby.signal',
  'recovery.signal',
  'lost+found',
  // The folder of snapshots, if a dataset shows it.
  '.zfs',
]);

const TEMPORARY_RELATION = /^t\d+_\d+(_(fsm|vm|init))?(\.\d+)?$/;

/** Says whether an entry of the folder (`''` for the data directory itself) is excluded. */
export function isExcluded(folder: string, name: string): boolean {
  if (name.startsWith('pgsql_tmp') || name.startsWith('pg_internal.init')) return true;
  if (folder === '') return AT_TOP.has(name) || name.endsWith('.pid') || /^core(\.\d+)?$/.test(name);
  return TEMPORARY_RELATION.test(name);
}

/** @param logFolder of the server, relative to the data directory, if it is inside it. */
export function isEmptied(folder: string, logFolder: string | undefined): boolean {
  return EMPTIED.has(folder) || folder === logFolder;
}

/**
 * The copy of a cluster needs the files of the target and of the databases that every server has; those of the others would only
 * take time. Recovery creates empty files for them.
 */

/** The databases that a server, its administration tools and our own sessions rely on. */
export const NEEDED_DATABASES = ['template0', 'template1', 'postgres', 'defaultdb'] as const;

/** `base`, and each tablespace's folder for a version, have one folder for each database. */
const PARENT = /^(base|PG_\d+_\d+)$/;

/**
 * Finds the database of a folder.
 * @param folder path of a folder in a data directory or a tablespace.
 * @returns the OID of the database whose files the folder holds; undefined for any other folder.
 */
export function databaseOfFolder(folder: string): string | undefined {
  const { dir, base } = path.parse(folder);
  return /^\d+$/.test(base) && PARENT.test(path.basename(dir)) ? base : undefined;
}

/** Says whether the folder belongs to a database that is not copied. @param kept OIDs. */
export function isLeftOut(folder: string, kept: ReadonlySet<string>): boolean {
  const database = databaseOfFolder(folder);
  return database !== undefined && !kept.has(database);
}
