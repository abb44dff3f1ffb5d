import { readFile, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { messageOf, SafemigrateError } from '../../errors.ts';
import { embeddedBinaries, type ServerVersion } from '../../local-server/binaries.ts';
import { needsReplica } from '../../local-server/installation.ts';
import type { Owner } from '../../ownership/folder-records.ts';
import type { RunId } from '../../ownership/run-id.ts';
import type { PointInTime } from '../clone-settings.ts';
import { findPlace, refuseWithoutSpace } from '../cluster/choose-folder.ts';
import { readTablespaces, type Tablespace } from '../cluster/cluster-layout.ts';
import { measureFolder } from '../cluster/measure.ts';
import { CopyObstacle } from '../cluster/obstacle.ts';
import { parseSystemIdentifier } from '../cluster/postmaster.ts';
import { probeReflink } from '../cluster/reflink.ts';
import type { CloneContext } from '../method.ts';
import { findZfsBase, type ZfsBase } from './zfs-base.ts';

export interface BaseBackup {
  readonly at: PointInTime;
  /** Without symbolic links. */
  readonly folder: string;
  /** The snapshot that is cloned instead of a copy of the folder. */
  readonly zfs: ZfsBase | null;
  /** Where the clone's folder is made. */
  readonly parent: string;
  readonly owner: Owner;
  /** The folder in which a `postgres` of the target's major version is installed. */
  readonly binaries: string;
  /** The folder from which it is run: inside the clone's folder if it must be prepared first. */
  readonly programs: string;
  readonly tablespaces: readonly Tablespace[];
  readonly restoreCommand: string;
  readonly shares: boolean;
  readonly files: number;
  readonly bytes: number;
}

/** PostgreSQL refuses to run as root; 65534 is `nobody` on Linux. */
const UNPRIVILEGED = { uid: 65_534, gid: 65_534 };

/** Reads what is known of the base backup. @throws CopyObstacle */
export async function readBaseBackup(context: CloneContext): Promise<BaseBackup> {
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
  const binaries = await programsFor(major);
  refuseWithoutSpace(place, bytes);
  return {
    at,
    folder,
    parent: place.parent,
    zfs,
    shares,
    files,
    bytes,
    owner: isRoot && uid === 0 ? UNPRIVILEGED : { uid, gid },
    binaries,
    programs: (await needsReplica(binaries, isRoot))
      ? path.join(place.parent, `safemigrate_${run}`, 'installation', 'bin')
      : binaries,
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

async function programsFor(major: number): Promise<string> {
  try {
    return await embeddedBinaries(major as ServerVersion);
  } catch (error) {
    if (error instanceof SafemigrateError) throw new CopyObstacle(error.message, error.hint);
    throw error;
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
    "--restore-command 'cp /archive/%f %p'",
  );
}
