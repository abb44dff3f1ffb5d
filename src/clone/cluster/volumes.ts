import { execFile } from 'node:child_process';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { type Mount, mountOf, readMounts } from '../../database/mounts.ts';
import type { Layout } from './cluster-layout.ts';
import type { SourceServer } from './source-server.ts';

const execute = promisify(execFile);

/** A btrfs subvolume or a ZFS dataset: what a snapshot is taken of. */
export interface Volume {
  /** Its topmost folder. */
  readonly root: string;
  /** Its name, for ZFS. */
  readonly dataset: string | null;
}

/** The place of a folder: in which of the volumes, and the path there. */
export interface VolumePlace {
  readonly volume: number;
  readonly relative: string;
}

/** A way to copy the files of a cluster by snapshots. */
export interface Snapshots {
  readonly kind: 'btrfs' | 'zfs';
  readonly volumes: readonly Volume[];
  readonly data: VolumePlace;
  /** null: WAL is in the data directory, or not part of the snapshots. */
  readonly wal: VolumePlace | null;
  readonly tablespaces: ReadonlyMap<string, VolumePlace>;
  /** The name of a snapshot that is there already, of the only volume. Default: one is taken of each. */
  readonly existing?: string;
  /**
   * The snapshots are of one moment and have all WAL: the state that a crash would leave, from which PostgreSQL recovers. Otherwise
   * they are taken in a backup, and WAL is copied after it.
   */
  readonly atomic: boolean;
}

interface Located extends Volume {
  readonly kind: Snapshots['kind'];
  readonly mount: Mount;
}

/**
 * Finds whether snapshots of the volumes that hold the cluster can be taken, wherever its parts lie.
 * @param parent the folder for the clone: btrfs snapshots must lie on the same file system.
 * @returns undefined if a part lies on another file system, or this user may not take snapshots.
 */
export async function findSnapshots(
  layout: Layout,
  { fsync }: Pick<SourceServer, 'fsync'>,
  parent: string,
): Promise<Snapshots | undefined> {
  // WAL must have been flushed before the data that depends on it.
  if (!fsync || process.platform !== 'linux') return undefined;
  const mounts = await readMounts();
  const data = await locate(layout.data, mounts);
  if (!data || (await hasInnerVolumes(layout)) || !(await mayTake(data.kind))) return undefined;
  const tablespaces = await Promise.all(layout.tablespaces.map(({ folder }) => locate(folder, mounts)));
  const isApart = layout.wal !== path.join(layout.data, 'pg_wal') || (await isOtherDevice(layout));
  const wal = isApart ? await locate(layout.wal, mounts) : data;
  const device = mountOf(parent, mounts)?.device;
  const fits = (volume: Located | undefined) =>
    volume?.kind === data.kind && (data.kind === 'zfs' || volume.mount.device === device);
  if (![data, ...tablespaces].every(fits)) return undefined;
  const needed = [data, ...tablespaces].filter((each) => each !== undefined);
  const together = [...needed, ...(wal && fits(wal) ? [wal] : [])];
  const atomic = together.length > needed.length && (await areAtomic(together));
  const volumes = unique(atomic ? together : needed);
  const placeOf = (folder: string, { root }: Volume): VolumePlace => ({
    volume: volumes.findIndex((volume) => volume.root === root),
    relative: path.relative(root, folder),
  });
  const placed = layout.tablespaces.map(
    ({ oid, folder }, index) => [oid, placeOf(folder, tablespaces[index] ?? data)] as const,
  );
  const places = [placeOf(layout.data, data), ...placed.map(([, place]) => place)];
  if (data.kind === 'btrfs' && !(await ownsAll(volumes, places))) return undefined;
  return {
    kind: data.kind,
    volumes,
    atomic,
    data: placeOf(layout.data, data),
    wal: atomic && isApart && wal ? placeOf(layout.wal, wal) : null,
    tablespaces: new Map(placed),
  };
}

/** Only the root of a btrfs subvolume has this inode number. */
const SUBVOLUME_ROOT = 256;

async function locate(folder: string, mounts: readonly Mount[]): Promise<Located | undefined> {
  const mount = mountOf(folder, mounts);
  if (mount?.type === 'zfs')
    // Of a dataset that is mounted in part the other paths are not known.
    return mount.root === '/' ? { kind: 'zfs', mount, root: mount.folder, dataset: mount.source } : undefined;
  if (mount?.type !== 'btrfs') return undefined;
  for (let root = folder; ; root = path.dirname(root)) {
    const { ino } = await stat(root);
    if (ino === SUBVOLUME_ROOT) return { kind: 'btrfs', mount, root, dataset: null };
    // What is mounted is a part of a subvolume whose root cannot be seen from here.
    if (root === mount.folder) return undefined;
  }
}

function unique(volumes: readonly Volume[]): Volume[] {
  return [...new Map(volumes.map(({ root, dataset }) => [root, { root, dataset }])).values()];
}

async function isOtherDevice({ data, wal }: Layout): Promise<boolean> {
  return (await stat(data)).dev !== (await stat(wal)).dev;
}

/** Says whether something inside the data directory or a tablespace, but for WAL, is a volume of its own: snapshots are not recursive. */
async function hasInnerVolumes({ data, tablespaces }: Layout): Promise<boolean> {
  const parents = [data, path.join(data, 'base')];
  for (const { folder } of tablespaces) {
    parents.push(folder);
    for (const name of await readdir(folder))
      if (name.startsWith('PG_')) parents.push(path.join(folder, name));
  }
  for (const parent of parents) {
    const { dev } = await stat(parent);
    for (const entry of await readdir(parent, { withFileTypes: true })) {
      if (!entry.isDirectory() || entry.name === 'pg_wal') continue;
      const inner = await stat(path.join(parent, entry.name)).catch(() => undefined);
      if (inner && inner.dev !== dev) return true;
    }
  }
  return false;
}

/** On Linux only root may mount a ZFS clone. A user may take a btrfs snapshot of a subvolume of its own. */
async function mayTake(kind: Snapshots['kind']): Promise<boolean> {
  if (kind === 'zfs') return process.getuid?.() === 0 && (await works('zfs', ['list', '-H', '-o', 'name']));
  return works('btrfs', ['--version']);
}

/** A user could not remove files of others that a snapshot holds beside the server's. */
async function ownsAll(volumes: readonly Volume[], places: readonly VolumePlace[]): Promise<boolean> {
  const uid = process.getuid?.();
  if (uid === 0) return true;
  const owners = await Promise.all(volumes.map(({ root }) => stat(root)));
  return owners.every((owner) => owner.uid === uid) && places.every(({ relative }) => relative === '');
}

/** ZFS takes several snapshots at one moment within a pool, from the version on that has `zfs version`. */
async function areAtomic(volumes: readonly Volume[]): Promise<boolean> {
  if (unique(volumes).length === 1) return true;
  const pools = new Set(volumes.map(({ dataset }) => dataset?.split('/')[0]));
  return !pools.has(undefined) && pools.size === 1 && (await works('zfs', ['version']));
}

async function works(program: string, words: string[]): Promise<boolean> {
  return execute(program, words).then(
    () => true,
    () => false,
  );
}
