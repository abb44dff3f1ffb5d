import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { mountOf, readMounts } from '../../database/mounts.ts';
import { messageOf } from '../../errors.ts';
import type { Owner } from '../../ownership/folder-records.ts';
import type { RunId } from '../../ownership/run-id.ts';
import type { PointInTime } from '../clone-settings.ts';
import { findPlace, measureFolder, refuseWithoutSpace } from '../cluster/choose-folder.ts';
import { readTablespaces, type Tablespace } from '../cluster/cluster-layout.ts';
import { probeReflink } from '../cluster/copier.ts';
import { parseSystemIdentifier } from '../cluster/recognise.ts';
import type { Snapshots } from '../cluster/volumes.ts';
import type { CloneContext } from '../method.ts';
import { CopyObstacle } from '../obstacle.ts';
import { findServerPrograms, UNPRIVILEGED } from '../private/private-server.ts';

export type BaseBackup = Awaited<ReturnType<typeof readBaseBackup>>;

/** Reads what is known of the base backup. @throws CopyObstacle */
export async function readBaseBackup(context: CloneContext) {
  const { target, options, run } = context;
  const { at } = options;
  if (!at) throw new CopyObstacle('no other time was asked for', '--clone-at');
  const major = Math.floor(target.server.versionNum / 10_000);
  const recognised = (place: string) => recognise(place, major, target.server.systemIdentifier);
  const zfs = (await findZfsBase(at.baseBackup, recognised)) ?? null;
  const folder = zfs?.folder ?? (await realpath(at.baseBackup).catch(() => at.baseBackup));
  const { uid, gid } = await recognised(folder);
  const isRoot = process.getuid?.() === 0;
  if (zfs && uid === 0) throw new CopyObstacle(`${folder} belongs to root, as whom PostgreSQL does not run`);
  const place = await findPlace(zfs?.root ?? folder, options.folder);
  const { files, bytes, shares } = zfs ? NOTHING_COPIED : await measure(folder, place.parent, run);
  const own = path.join(place.parent, `safemigrate_${run}`);
  const programs = await findServerPrograms(target.server.versionNum, own);
  refuseWithoutSpace(place, bytes);
  const owner: Owner = isRoot && uid === 0 ? UNPRIVILEGED : { uid, gid };
  return {
    at,
    /** Without symbolic links. */
    folder,
    /** The folder in which the clone's folder is made. */
    parent: place.parent,
    /** The snapshot that is cloned instead of a copy of the folder. */
    zfs,
    shares,
    files,
    bytes,
    owner,
    ...programs,
    tablespaces: await readTablespaces(folder),
    restoreCommand: await restoreCommandOf(context, at),
  };
}

const NOTHING_COPIED = { files: 0, bytes: 0, shares: true };

async function measure(folder: string, parent: string, run: RunId): Promise<typeof NOTHING_COPIED> {
  const shares = await probeReflink(path.join(folder, 'PG_VERSION'), parent, run);
  const { files, bytes } = await measureFolder(folder, true);
  return { files, bytes: shares ? 0 : bytes, shares };
}

/** @throws CopyObstacle if it is no data directory of the target's. */
async function recognise(folder: string, major: number, systemIdentifier: string | null) {
  try {
    const version = (await readFile(path.join(folder, 'PG_VERSION'), 'utf8')).trim();
    if (version !== String(major))
      throw new CopyObstacle(`${folder} is of PostgreSQL ${version}, and the target of ${major}`);
    const found = parseSystemIdentifier(await readFile(path.join(folder, 'global', 'pg_control')));
    if (systemIdentifier !== null && found !== systemIdentifier)
      throw new CopyObstacle(
        `${folder} is of another cluster than the target (their system identifiers differ)`,
        'name a base backup of the target with --base-backup',
      );
    return await stat(folder);
  } catch (error) {
    if (error instanceof CopyObstacle) throw error;
    throw new CopyObstacle(
      `${folder} is not a base backup that this user can read: ${messageOf(error)}`,
      'name the folder of a plain base backup (it has PG_VERSION and backup_label), or of a data directory in a snapshot',
    );
  }
}

async function restoreCommandOf({ control }: CloneContext, { restoreCommand }: PointInTime): Promise<string> {
  if (restoreCommand !== null) return restoreCommand;
  const [row] = await control.query<{ command: string | null }>(
    `SELECT CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE') THEN current_setting('restore_command') END AS command`,
  );
  if (row?.command) return row.command;
  throw new CopyObstacle(
    'the target has no restore_command that this role may read',
    "SAFEMIGRATE_RESTORE_COMMAND='cp /archive/%f %p'",
  );
}

const execute = promisify(execFile);

/** A ZFS snapshot that a base backup is taken from, without copying. */
export interface ZfsBase {
  /** The data directory in the dataset as it is now: in the snapshot it has the same place. */
  readonly folder: string;
  /** The folder where the dataset is mounted. */
  readonly root: string;
  readonly snapshots: Snapshots;
}

const SNAPSHOT = /^([^/.@][^@]*)@[^@/]+$/;

const ANOTHER_BASE = 'name the folder of a base backup';

/** Depth below the root of a dataset at which a data directory is looked for: `15/main`. */
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
  if (dataset === undefined || existsSync(named)) return undefined;
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
  if (!hasWal && !existsSync(path.join(folder, 'backup_label')))
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
  if (existsSync(path.join(folder, 'global', 'pg_control')))
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
