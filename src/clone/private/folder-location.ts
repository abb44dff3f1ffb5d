import { lstat, realpath, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Target } from '../../database/target.ts';
import { SafemigrateError } from '../../errors.ts';
import { formatBytes } from '../../format.ts';
import { CLONE_PORT } from '../../ownership/folder-records.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import type { CloneContext } from '../method.ts';
import type { PrivateServer } from './private-server.ts';

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
  const inside = path.join(folder, 'socket');
  const apart = Buffer.byteLength(`${inside}/.s.PGSQL.${CLONE_PORT}.lock`) > MAX_SOCKET_PATH_BYTES;
  const socketFolder = apart ? path.join(await realpath(tmpdir()), `safemigrate_${run}`) : inside;
  return { socketFolder, floorBytes };
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
