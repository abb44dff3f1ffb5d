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
