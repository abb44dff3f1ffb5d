import { execFile } from 'node:child_process';
import { chown, mkdir, readdir, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { messageOf, SafemigrateError } from '../../errors.ts';
import type { Owner } from '../../ownership/folder-records.ts';
import type { RunId } from '../../ownership/run-id.ts';
import type { Layout } from './cluster-layout.ts';
import { isEmptied, isExcluded } from './excluded.ts';
import type { Snapshots, VolumePlace } from './volumes.ts';

/**
 * Snapshots of whole volumes: a call for each, whatever the number of files. They lie in `<folder>/parts/<number>`, and may hold
 * more than the server's files; `<folder>/data` is a link to its data directory there.
 *
 * A btrfs snapshot can also be removed like a folder by its owner (Linux 4.18). A ZFS clone is mounted in its folder, and must be
 * destroyed before the folder is removed: `release` does that.
 */
const execute = promisify(execFile);

const PARTS = 'parts';

export interface SnapshotCommands {
  /** Programs with their arguments, in order. */
  readonly take: readonly (readonly [program: string, ...words: string[]])[];
  /** A shell command that gives back what `take` took, or a part of it. */
  readonly release: string;
  /** Shell commands that save the first state of a clone, and go back to it; undefined if its folder has to be copied. */
  readonly rollback?: { readonly save: string; readonly restore: string };
}

/** @param folder of the clone. */
export function snapshotCommands(
  { kind, volumes, atomic, existing }: Snapshots,
  run: RunId,
  folder: string,
): SnapshotCommands {
  const parts = volumes.map((volume, index) => ({
    ...volume,
    part: path.join(folder, PARTS, String(index)),
  }));
  if (kind === 'btrfs')
    return {
      take: parts.map(({ root, part }) => ['btrfs', 'subvolume', 'snapshot', root, part]),
      release: parts
        .map(
          ({ part }) =>
            `[ ! -e ${quoted(part)} ] || btrfs subvolume delete ${quoted(part)} > /dev/null 2>&1 || :`,
        )
        .join('; '),
    };
  const named = parts.map(({ dataset, part }) => ({
    part,
    snapshot: existing ?? `${dataset}@safemigrate_${run}`,
    // In the dataset it has the dataset's settings, and the key of an encrypted one.
    clone: cloneName(dataset, run),
  }));
  const names = named.map(({ snapshot }) => snapshot);
  const together: string[][] = atomic ? [names] : names.map((name) => [name]);
  const snapshots = existing === undefined ? together : [];
  return {
    take: [
      ...snapshots.map((words) => ['zfs', 'snapshot', ...words] as const),
      ...named.map(
        ({ part, snapshot, clone }) => ['zfs', 'clone', ...options(part), snapshot, clone] as const,
      ),
    ],
    // Others may have taken snapshots of the clone, as services do that take them of everything: these go with it.
    release: named
      .flatMap(({ clone, snapshot }) => [
        destroys(clone, '-r '),
        ...(existing === undefined ? [destroys(snapshot, '')] : []),
      ])
      .join(' && '),
    rollback: {
      save: named.map(({ clone }) => `zfs snapshot ${quoted(`${clone}@first`)}`).join(' && '),
      restore: named.map(({ clone }) => `zfs rollback -r ${quoted(`${clone}@first`)}`).join(' && '),
    },
  };
}

function cloneName(dataset: string | null, run: RunId): string {
  return `${dataset}/safemigrate_${run}`;
}

/** Lists properties that the dataset may have, and a clone must not have. */
function options(mountpoint: string): string[] {
  return [`mountpoint=${mountpoint}`, 'readonly=off', 'snapdir=hidden'].flatMap((option) => ['-o', option]);
}

/** It fails unless the dataset or snapshot is gone for certain: if ZFS does not answer, it is not. */
function destroys(name: string, how: string): string {
  const gone = "*'does not exist'* | *'could not find any snapshots'*";
  return `{ said=$(LC_ALL=C zfs destroy ${how}${quoted(name)} 2>&1) || case $said in ${gone}) ;; *) false ;; esac; }`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Takes the snapshots. @throws SafemigrateError `CLONE` */
export async function takeSnapshots(
  snapshots: Snapshots,
  run: RunId,
  folder: string,
  owner: Owner,
): Promise<void> {
  await makeOwned(path.join(folder, PARTS), owner);
  for (const [program, ...words] of snapshotCommands(snapshots, run, folder).take)
    await command(program, words);
  if (snapshots.kind === 'zfs' || process.getuid?.() !== 0) return;
  // Only the owner of a subvolume may take a snapshot of it, as a reset of the clone does.
  for (const index of snapshots.volumes.keys())
    await chown(path.join(folder, PARTS, String(index)), owner.uid, owner.gid);
}

/** Lists the folders of the server's files in the snapshots: the data directory comes first. */
export function placesIn(folder: string, { data, wal, tablespaces }: Snapshots): string[] {
  const places = [data, ...(wal ? [wal] : []), ...tablespaces.values()].map((each) => placeIn(folder, each));
  return places.filter(
    (place, index) => !places.slice(0, index).some((outer) => `${place}/`.startsWith(`${outer}/`)),
  );
}

function placeIn(folder: string, { volume, relative }: VolumePlace): string {
  return path.join(folder, PARTS, String(volume), relative);
}

/** Links the parts of the server to one another, as they lie in the snapshots, and removes what a copy excludes. */
export async function arrangeSnapshots(
  folder: string,
  snapshots: Snapshots,
  layout: Layout,
  owner: Owner,
): Promise<void> {
  const data = path.join(folder, 'data');
  await symlink(path.relative(folder, placeIn(folder, snapshots.data)), data);
  await prune(data, layout);
  const wal = path.join(data, 'pg_wal');
  if (!snapshots.atomic || snapshots.wal) await rm(wal, { recursive: true, force: true });
  if (!snapshots.atomic) await makeOwned(wal, owner);
  else if (snapshots.wal) await symlink(placeIn(folder, snapshots.wal), wal);
  // The list of segments to archive is the original's.
  await emptyFolder(path.join(wal, 'archive_status'));
  for (const [oid, place] of snapshots.tablespaces) {
    const link = path.join(data, 'pg_tblspc', oid);
    await rm(link, { force: true });
    await symlink(placeIn(folder, place), link);
  }
}

async function makeOwned(folder: string, { uid, gid }: Owner): Promise<void> {
  await mkdir(folder, { mode: 0o700 });
  if (process.getuid?.() === 0) await chown(folder, uid, gid);
}

async function prune(data: string, { logFolder, replaced }: Layout): Promise<void> {
  const entries = await readdir(data, { withFileTypes: true });
  for (const { name } of entries) {
    if (isExcluded('', name) || replaced.has(name))
      await rm(path.join(data, name), { recursive: true, force: true });
  }
  const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  // Recovery needs the WAL.
  for (const name of folders)
    if (name !== 'pg_wal' && isEmptied(name, logFolder)) await emptyFolder(path.join(data, name));
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
