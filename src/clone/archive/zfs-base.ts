import { execFile } from 'node:child_process';
import { access, readdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { mountOf, readMounts } from '../../database/mounts.ts';
import { messageOf } from '../../errors.ts';
import { readTablespaces, type Tablespace } from '../cluster/cluster-layout.ts';
import { CopyObstacle } from '../cluster/obstacle.ts';
import type { Snapshots } from '../cluster/volumes.ts';

const execute = promisify(execFile);

/** A ZFS snapshot that a base backup is taken from, without copying. */
export interface ZfsBase {
  /** The data directory in the dataset as it is now: in the snapshot it has the same place. */
  readonly folder: string;
  /** Where the dataset is mounted. */
  readonly root: string;
  readonly snapshots: Snapshots;
}

const SNAPSHOT = /^([^/.@][^@]*)@[^@/]+$/;

const ANOTHER_BASE = 'name the folder of a base backup';

/** How deep below the root of a dataset a data directory may lie: `15/main`. */
const DEPTH = 2;

/**
 * Finds the data directory that `dataset@snapshot` holds.
 * @param refuse throws a CopyObstacle for a folder that is no data directory of the target's.
 * @returns undefined if that is the name of a folder.
 * @throws CopyObstacle
 */
export async function findZfsBase(
  named: string,
  refuse: (folder: string) => Promise<unknown>,
): Promise<ZfsBase | undefined> {
  const dataset = SNAPSHOT.exec(named)?.[1];
  if (dataset === undefined || (await exists(named))) return undefined;
  if (process.getuid?.() !== 0)
    throw new CopyObstacle('only root may mount a clone of a ZFS snapshot', 'run safemigrate as root');
  await execute('zfs', ['list', '-H', '-t', 'snapshot', named]).catch((error: unknown) => {
    throw new CopyObstacle(`ZFS has no snapshot ${named}: ${messageOf(error)}`, 'zfs list -t snapshot');
  });
  const mounts = await readMounts();
  const mount = mounts.findLast(
    ({ type, source, root }) => type === 'zfs' && source === dataset && root === '/',
  );
  if (!mount) throw new CopyObstacle(`the dataset ${dataset} is not mounted`, `zfs mount '${dataset}'`);
  const folder = await findDataDirectory(mount.folder, DEPTH, refuse);
  if (folder === undefined)
    throw new CopyObstacle(
      `${mount.folder}, where ${dataset} is mounted, has no data directory of the target's`,
      'name a snapshot of the dataset with the data directory',
    );
  const isInside = (place: string) => mountOf(place, mounts) === mount;
  const inside = (place: string) => ({ volume: 0, relative: path.relative(mount.folder, place) });
  const tablespaces = await readTablespaces(folder);
  refuseElsewhere(tablespaces, dataset, isInside);
  const wal = await realpath(path.join(folder, 'pg_wal'));
  const hasWal = isInside(wal);
  if (!hasWal && !(await exists(path.join(folder, 'backup_label'))))
    throw new CopyObstacle(`WAL (${wal}) is not in the dataset ${dataset}`, ANOTHER_BASE);
  const snapshots: Snapshots = {
    kind: 'zfs',
    volumes: [{ root: mount.folder, dataset }],
    existing: named,
    data: inside(folder),
    atomic: hasWal,
    wal: hasWal && wal !== path.join(folder, 'pg_wal') ? inside(wal) : null,
    tablespaces: new Map(tablespaces.map(({ oid, folder: place }) => [oid, inside(place)])),
  };
  return { folder, root: mount.folder, snapshots };
}

function refuseElsewhere(
  tablespaces: readonly Tablespace[],
  dataset: string,
  isInside: (folder: string) => boolean,
): void {
  const apart = tablespaces.find(({ folder }) => !isInside(folder));
  if (apart)
    throw new CopyObstacle(`the tablespace ${apart.folder} is not in the dataset ${dataset}`, ANOTHER_BASE);
}

async function findDataDirectory(
  folder: string,
  depth: number,
  refuse: (folder: string) => Promise<unknown>,
): Promise<string | undefined> {
  if (await exists(path.join(folder, 'global', 'pg_control')))
    return refuse(folder).then(
      () => folder,
      (error: unknown) => {
        if (error instanceof CopyObstacle) return undefined;
        throw error;
      },
    );
  if (depth === 0) return undefined;
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const found = entry.isDirectory()
      ? await findDataDirectory(path.join(folder, entry.name), depth - 1, refuse)
      : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

async function exists(place: string): Promise<boolean> {
  return access(place).then(
    () => true,
    () => false,
  );
}
