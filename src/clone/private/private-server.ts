import { lstat, realpath, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Target } from '../../database/target.ts';
import { SafemigrateError } from '../../errors.ts';
import { formatBytes } from '../../format.ts';
import { embeddedBinaries, type ServerVersion } from '../../local-server/binaries.ts';
import { needsReplica } from '../../local-server/installation.ts';
import type { Caveat } from '../../model/report.ts';
import { CLONE_PORT, type Owner } from '../../ownership/folder-records.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import type { MethodId } from '../clone-settings.ts';
import type { CloneContext, Possible } from '../method.ts';
import { CopyObstacle } from '../obstacle.ts';

/** PostgreSQL refuses to run as root; 65534 is `nobody` on Linux. */
export const UNPRIVILEGED: Owner = { uid: 65_534, gid: 65_534 };

/** Finds the folder with programs of this version of the server. @throws CopyObstacle */
export async function installedPrograms(versionNum: number): Promise<string> {
  try {
    return await embeddedBinaries(Math.floor(versionNum / 10_000) as ServerVersion);
  } catch (error) {
    if (!(error instanceof SafemigrateError)) throw error;
    throw new CopyObstacle(error.message, error.hint);
  }
}

/**
 * Finds the programs for a private server in a folder.
 * @returns as `binaries` the folder in which they are installed, and as `programs` the one from which they are run: inside the
 * clone's folder if they must be prepared first (usableInstallation()).
 * @throws CopyObstacle
 */
export async function findServerPrograms(versionNum: number, folder: string) {
  const binaries = await installedPrograms(versionNum);
  const prepared = await needsReplica(binaries, process.getuid?.() === 0);
  return { binaries, programs: prepared ? path.join(folder, 'installation', 'bin') : binaries };
}

/** Describes a copy of a whole cluster that will be created in a folder of its own and started as a second server. */
export interface PrivateServer {
  readonly method: MethodId;
  readonly assessment: Possible;
  /**
   * The folder for the whole clone: `<parent>/safemigrate_<run>`, without symbolic links; it does not exist yet.
   */
  readonly folder: string;
  /** Owner of the original's data directory: the second server runs as this user. */
  readonly owner: Owner;
  /** Number of files that it will have; undefined if that is not known. */
  readonly files?: number;
  /** The folder of the original's programs (`postgres`). */
  readonly programs: string;
  /** Other folders that its sandbox shows: programs and libraries. */
  readonly libraries?: readonly string[];
  /**
   * A shell command that releases what removing the folder does not (`zfs destroy …`), harmless if there is nothing yet, and
   * repeated if it fails. The watchdog runs it after the server has ended, before the folder is removed.
   */
  readonly release?: string;
  /** Shell commands that save the first state of a clone that can be reset, and go back to it. Default: its folder is copied. */
  readonly rollback?: { readonly save: string; readonly restore: string };
  /** The folders of the server's files, if they lie among others in the folder. */
  readonly places?: readonly string[];
  /** A folder that has the space that the clone takes. Default: the parent of its folder. */
  readonly space?: string;
  /** Creates `<folder>/data` (and `<folder>/tablespaces/<oid>`), ready for crash or backup recovery. */
  fill(folder: string): Promise<FilledFolder>;
}

export interface FilledFolder {
  /** Describes for the report what copying did to the original server. */
  readonly touched: string[];
  /** Describes how the copy differs from the original. */
  readonly caveats: Caveat[];
  /** OIDs of the databases whose files were copied; null for all. */
  readonly databases: ReadonlySet<string> | null;
  /** For a copy that recovers from an archive. */
  readonly recovery?: Recovery;
}

export interface Recovery {
  /** Settings of the server in addition to the others. */
  readonly settings: Readonly<Record<string, string>>;
  /** Does what it takes that the server can recover, while it starts. */
  during<T>(start: () => Promise<T>): Promise<T>;
}

export interface FolderLocation {
  readonly socketFolder: string;
  /** Free space below which the clone is ended. */
  readonly floorBytes: number;
}

/** Longest path of a Unix socket on Linux; macOS has 103. */
const MAX_SOCKET_PATH_BYTES = process.platform === 'linux' ? 107 : 103;

/**
 * Computes the floor: 5 % of the file system, at least 1 GB and at most 10 GB, so that the original has space until a person
 * reacts; but never more than a tenth, or small file systems could have no clone.
 */
export function floorOf(sizeBytes: number): number {
  const GB = 2 ** 30;
  return Math.floor(Math.min(Math.max(sizeBytes / 20, GB), 10 * GB, sizeBytes / 10));
}

/** Checks the place. @throws SafemigrateError `PRIVILEGE` for another user's cluster, `DISK` if there is too little space. */
export async function placeFor(
  { run }: Pick<CloneContext, 'run'>,
  { folder, owner, space }: PrivateServer,
): Promise<FolderLocation> {
  const uid = process.getuid?.();
  if (uid !== 0 && uid !== owner.uid) {
    throw new SafemigrateError(
      'PRIVILEGE',
      `A server on a copy must run as the original's user (${owner.uid}).`,
      {
        hint: 'Run safemigrate as that user or as root. The target was not touched.',
      },
    );
  }
  const parent = path.dirname(folder);
  if ((await realpath(parent)) !== parent || (await lstat(folder).catch(() => undefined)))
    throw new Error(`${folder} must have no symbolic links in it, and must not exist`);
  const { bsize, blocks, bavail } = await statfs(space ?? parent);
  const floorBytes = floorOf(blocks * bsize);
  if (bavail * bsize < floorBytes) {
    const [free, floor] = [bavail * bsize, floorBytes].map(formatBytes);
    throw new SafemigrateError(
      'DISK',
      `${parent} has only ${free} free, and a clone there ends below ${floor}.`,
      {
        hint: 'The target was not touched. Free some space, or put the clone elsewhere with --clone-dir.',
      },
    );
  }
  const socketFolder = hasSocketApart(folder)
    ? path.join(await realpath(tmpdir()), `safemigrate_${run}`)
    : socketInside(folder);
  return { socketFolder, floorBytes };
}

const socketInside = (folder: string) => path.join(folder, 'socket');

/** Says whether the path of the clone's folder is too long for a socket, which then is in the folder for temporary files. */
export function hasSocketApart(folder: string): boolean {
  const place = `${socketInside(folder)}/.s.PGSQL.${CLONE_PORT}.lock`;
  return Buffer.byteLength(place) > MAX_SOCKET_PATH_BYTES;
}

/** Connects as the target's user, without a password. */
export function loginThere(settings: ConnectionSettings, place: FolderLocation): ConnectionSettings {
  const { options, client_encoding, application_name } = settings.parameters;
  const parameters = { options, client_encoding, application_name };
  return {
    hosts: [{ host: place.socketFolder, port: CLONE_PORT }],
    user: settings.user,
    database: settings.database,
    sslmode: 'disable',
    parameters: Object.fromEntries(
      Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined),
    ),
  };
}

/** Connects our own sessions as a superuser, since they read locks and WAL of all roles. */
export function targetThere(target: Target, place: FolderLocation, superuser: string): Target {
  const { hosts, database, sslmode } = loginThere(target.settings, place);
  return { ...target, settings: { hosts, database, sslmode, user: superuser, parameters: {} } };
}
