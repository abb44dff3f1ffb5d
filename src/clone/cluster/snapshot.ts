import { execFile } from 'node:child_process';
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { messageOf, SafemigrateError } from '../../errors.ts';
import type { RunId } from '../../ownership/run-id.ts';
import type { Layout } from './cluster-layout.ts';
import { isEmptied, isExcluded } from './excluded.ts';

/**
 * Snapshots of a whole file system: one call, whatever the number of files. A snapshot has the state that a crash would leave, from
 * which PostgreSQL recovers without a backup.
 *
 * A btrfs snapshot is removed like a folder: `rm -rf` by its owner works (Linux 4.18).
 * A ZFS clone is mounted in its folder, and must be destroyed before the folder is removed: `release` does that.
 */
const execute = promisify(execFile);

export async function hasBtrfs(): Promise<boolean> {
  return execute('btrfs', ['--version']).then(
    () => true,
    () => false,
  );
}

export async function snapshotBtrfs(data: string, to: string): Promise<void> {
  await command('btrfs', ['subvolume', 'snapshot', data, to]);
}

export interface ZfsDataset {
  readonly name: string;
}

/** Finds the dataset that is mounted at the folder. @returns undefined if there is none, or no `zfs` program. */
export async function zfsDatasetOf(folder: string): Promise<ZfsDataset | undefined> {
  try {
    const { stdout } = await execute('zfs', ['list', '-H', '-o', 'name,mountpoint', folder]);
    const [name, mountpoint] = stdout.trimEnd().split('\t');
    return name !== undefined && mountpoint === folder ? { name } : undefined;
  } catch {
    return undefined;
  }
}

export function zfsCommands(
  { name }: ZfsDataset,
  run: RunId,
  to: string,
): Readonly<Record<'snapshot' | 'clone', string[]>> & { readonly release: string } {
  const snapshot = `${name}@safemigrate_${run}`;
  const quoted = `'${snapshot.replaceAll("'", `'\\''`)}'`;
  return {
    snapshot: ['snapshot', snapshot],
    clone: ['clone', '-o', `mountpoint=${to}`, snapshot, `${name}/safemigrate_${run}`],
    release: `! zfs list -t snapshot ${quoted} > /dev/null 2>&1 || zfs destroy -R ${quoted}`,
  };
}

/** @param to becomes the mount point of the clone. */
export async function snapshotZfs(dataset: ZfsDataset, run: RunId, to: string): Promise<void> {
  const commands = zfsCommands(dataset, run, to);
  await command('zfs', commands.snapshot);
  await command('zfs', commands.clone);
}

/** Removes from a snapshot what a copy excludes. */
export async function pruneSnapshot(data: string, { logFolder, replaced }: Layout): Promise<void> {
  const entries = await readdir(data, { withFileTypes: true });
  for (const { name } of entries) {
    if (isExcluded('', name) || replaced.has(name))
      await rm(path.join(data, name), { recursive: true, force: true });
  }
  const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  // Recovery needs the WAL; the list of segments to archive is the original's.
  const emptied = folders.filter((name) => name !== 'pg_wal' && isEmptied(name, logFolder));
  for (const name of [...emptied, 'pg_wal/archive_status']) await emptyFolder(path.join(data, name));
  if (logFolder !== undefined) await emptyFolder(path.join(data, logFolder));
}

async function emptyFolder(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  await Promise.all(names.map((name) => rm(path.join(folder, name), { recursive: true, force: true })));
}

async function command(program: string, args: string[]): Promise<void> {
  try {
    await execute(program, args);
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
    throw new SafemigrateError('CLONE', `${program} ${args.join(' ')} failed: ${said || messageOf(error)}`, {
      hint: 'The target was not changed. --clone-dir, or another method (--clone), may do.',
      cause: error,
    });
  }
}
