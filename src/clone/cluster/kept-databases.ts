import path from 'node:path';

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
