/**
 * What the copy of a data directory comes without: what belongs to the running server, what the documentation of base
 * backups says to leave out, and logs. Paths are relative to the data directory.
 */

/** Folders that have to be there, and are filled by a server for itself. pg_wal is copied apart. */
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
  // From here on these are of our own backup, or of none.
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
]);

const TEMPORARY_RELATION = /^t\d+_\d+(_(fsm|vm|init))?(\.\d+)?$/;

/** @returns whether an entry of the folder (`''` for the data directory itself) is left out. */
export function isExcluded(folder: string, name: string): boolean {
  if (name.startsWith('pgsql_tmp') || name.startsWith('pg_internal.init')) return true;
  if (folder === '') return AT_TOP.has(name) || name.endsWith('.pid') || /^core(\.\d+)?$/.test(name);
  return TEMPORARY_RELATION.test(name);
}

/** @param logFolder of the server, relative to the data directory, where it is inside of it. */
export function isEmptied(folder: string, logFolder: string | undefined): boolean {
  return EMPTIED.has(folder) || folder === logFolder;
}
