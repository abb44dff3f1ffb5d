import path from 'node:path';
import { databaseArgument } from '../../postgres/connection/client-environment.ts';
import type { Transfer, Transferred } from './order.ts';

/** pg_dump waits for the lock of each table as long as our own sessions do. */
const LOCK_WAIT_MS = 5_000;

/**
 * Builds a shell script that runs both programs, each with the variables of its side, and one log for both. A pipe has the exit
 * code of its last program, so the first one creates a file if it fails.
 */
export function transferScript(
  order: Pick<Transfer, 'programs' | 'from' | 'to' | 'options' | 'withoutRoles' | 'withoutTablespaces'>,
  { folder, mode, jobs }: Transferred & { readonly folder: string },
): string {
  const place = path.join(folder, 'dump');
  const failed = path.join(folder, 'failed');
  const dump = side(order.from, 'FROM_', dumpWords(order, mode, jobs, place));
  const restore = side(order.to, 'TO_', restoreWords(order, mode, jobs, place));
  return mode === 'directory'
    ? `( ${dump} ) && ( ${restore} )`
    : `{ ( ${dump} ) || : > ${quoted(failed)}; } | ( ${restore} ) && [ ! -e ${quoted(failed)} ]`;
}

export function dumpWords(
  { programs, from, options, withoutRoles }: Pick<Transfer, 'programs' | 'from' | 'options' | 'withoutRoles'>,
  mode: Transferred['mode'],
  jobs: number,
  place: string,
): string[] {
  return [
    path.join(programs.folder, 'pg_dump'),
    '--no-password',
    `--lock-wait-timeout=${LOCK_WAIT_MS}`,
    // A restored subscription would prevent DROP DATABASE, and its owner could enable it.
    '--no-subscriptions',
    '--compress=0',
    ...(mode === 'directory'
      ? ['--format=directory', `--jobs=${jobs}`, `--file=${place}`, '--no-sync']
      : ['--format=custom']),
    ...(options.schemaOnly ? ['--schema-only'] : []),
    ...options.excludeTableData.map((pattern) => `--exclude-table-data=${pattern}`),
    ...(withoutRoles ? ['--no-owner', '--no-privileges'] : []),
    `--dbname=${databaseArgument(from.database)}`,
  ];
}

export function restoreWords(
  {
    programs,
    to,
    withoutRoles,
    withoutTablespaces,
  }: Pick<Transfer, 'programs' | 'to' | 'withoutRoles' | 'withoutTablespaces'>,
  mode: Transferred['mode'],
  jobs: number,
  place: string,
): string[] {
  return [
    path.join(programs.folder, 'pg_restore'),
    '--no-password',
    '--exit-on-error',
    ...(withoutRoles ? ['--no-owner', '--no-privileges'] : []),
    ...(withoutTablespaces ? ['--no-tablespaces'] : []),
    `--dbname=${databaseArgument(to.database)}`,
    ...(mode === 'directory' ? [`--jobs=${jobs}`, place] : []),
  ];
}

function side({ environment }: Transfer['from'], prefix: string, words: readonly string[]): string {
  const names = Object.keys(environment).filter((name) => name.startsWith('PG'));
  const take = names.map((name) => `export ${name}="$${prefix}${name}"`);
  return [...take, `exec ${words.map(quoted).join(' ')}`].join('; ');
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
