import path from 'node:path';

/**
 * Of a cluster the copy needs the target's files and those of the databases that every server has: the files of all others
 * would only cost time. Recovery writes what it has to into empty files of theirs.
 */

/** The databases that a server, its administration tools and our own sessions rely on. */
export const NEEDED_DATABASES = ['template0', 'template1', 'postgres', 'defaultdb'] as const;

/** In `base`, and in each tablespace in a folder for each version and catalogue, there is one folder for each database. */
const PARENT = /^(base|PG_\d+_\d+)$/;

/**
 * @param folder path of a folder in a data directory or a tablespace.
 * @returns the OID of the database whose files the folder holds; undefined for any other folder.
 */
export function databaseOfFolder(folder: string): string | undefined {
  const { dir, base } = path.parse(folder);
  return /^\d+$/.test(base) && PARENT.test(path.basename(dir)) ? base : undefined;
}

/** Whether the folder holds a database that the copy does without. @param kept OIDs. */
export function isLeftOut(folder: string, kept: ReadonlySet<string>): boolean {
  const database = databaseOfFolder(folder);
  return database !== undefined && !kept.has(database);
}
