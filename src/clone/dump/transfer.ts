import { readdir, stat, statfs } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { SafemigrateError } from '../../errors.ts';
import type { ClientPrograms } from '../../local-server/client-programs.ts';
import type { GuardedFolder } from '../../local-server/folder-cleaner.ts';
import { runGuarded } from '../../local-server/folder-cleaner.ts';
import { databaseArgument } from '../../postgres/connection/client-environment.ts';
import type { CloneOptions } from '../clone-settings.ts';

/** More jobs would slow down a server that is in use. */
const MAX_JOBS = 8;

/**
 * Runs pg_dump and pg_restore, in a process group that ends with us, however we end.
 * @throws SafemigrateError `CLONE` with the programs' output; the signal's reason.
 */
export async function transfer(order: Transfer): Promise<TransferMode> {
  const { signal, place, onProgress } = order;
  const { folder } = place;
  const jobs = Math.min(availableParallelism(), MAX_JOBS);
  // Measured on 2 cores with 450 MB: 7.3 s by a folder, 9 to 12 s by a pipe; more cores widen the gap.
  const mode = jobs > 1 && (await freeBytes(folder)) > order.sizeBytes * 1.1 ? 'directory' : 'pipe';
  const words = ['/bin/sh', '-c', transferScript(order, { folder, mode, jobs })];
  const launching = { environment: bothEnvironments(order), folder };
  const said = await runGuarded(place, words, launching, signal, async () =>
    onProgress(await sizeOf(path.join(folder, 'dump'))),
  );
  if (said === null) return mode;
  throw new SafemigrateError('CLONE', `The target could not be dumped and restored:\n${said}`, {
    hint:
      'The target was not changed, and the incomplete clone is removed. Try again if the server was restarted or failed over ' +
      'in the meantime.',
  });
}

/** Puts the variables of both sides into one environment, prefixed with the side until its program starts. */
function bothEnvironments({ from, to }: Transfer): Record<string, string> {
  const all: Record<string, string> = {};
  for (const [prefix, { environment }] of [['FROM_', from] as const, ['TO_', to] as const])
    for (const [name, value] of Object.entries(environment))
      all[name.startsWith('PG') ? prefix + name : name] = value;
  return all;
}

async function sizeOf(folder: string): Promise<number> {
  const names = await readdir(folder).catch((): string[] => []);
  const sizes = await Promise.all(
    names.map((name) =>
      stat(path.join(folder, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** Returns 0 if it cannot be read. */
async function freeBytes(folder: string): Promise<number> {
  return statfs(folder).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => 0,
  );
}

/** pg_dump waits for the lock of each table as long as our own sessions do. */
const LOCK_WAIT_MS = 5_000;

/**
 * Builds a shell script that runs both programs, each with the variables of its side, and one log for both. A pipe has the exit
 * code of its last program, so the first one creates a file if it fails.
 */
export function transferScript(
  order: Pick<Transfer, 'programs' | 'from' | 'to' | 'options' | 'withoutRoles' | 'withoutTablespaces'>,
  { folder, mode, jobs }: { folder: string; mode: TransferMode; jobs: number },
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
  mode: TransferMode,
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
  mode: TransferMode,
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

export interface Transfer {
  readonly programs: ClientPrograms;
  /** A new folder for the logs and, if there is space, the dump; it is removed at the end. */
  readonly place: GuardedFolder;
  /** The environments with which the programs connect, and the databases. */
  readonly from: { readonly environment: Readonly<Record<string, string>>; readonly database: string };
  readonly to: { readonly environment: Readonly<Record<string, string>>; readonly database: string };
  /** Size of the target, the upper limit of the dump's. */
  readonly sizeBytes: number;
  readonly options: Pick<CloneOptions, 'schemaOnly' | 'excludeTableData'>;
  /** The target's roles cannot be used there. */
  readonly withoutRoles: boolean;
  /** Another server may lack the tablespaces. */
  readonly withoutTablespaces: boolean;
  readonly signal: AbortSignal;
  /** Called several times a second, with the size of the dump so far. */
  readonly onProgress: (dumpedBytes: number) => Promise<void>;
}

/** `directory`: dumped, then restored, each by several processes. `pipe`: both at the same time, by one process each. */
export type TransferMode = 'directory' | 'pipe';
