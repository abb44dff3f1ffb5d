import { readdir, readlink, realpath, statfs } from 'node:fs/promises';
import path from 'node:path';
import { mountOf, readMounts } from '../../database/mounts.ts';
import { codeOf } from '../../errors.ts';
import { CopyObstacle } from '../obstacle.ts';
import type { SourceServer } from './source-server.ts';

export interface Tablespace {
  readonly oid: string;
  /** The folder that its link points to, with all links resolved. */
  readonly folder: string;
}

/** The locations of the parts of a cluster. */
export interface Layout {
  readonly data: string;
  /** The folder of pg_wal, with links resolved. */
  readonly wal: string;
  readonly tablespaces: readonly Tablespace[];
  /** The folder of the server's log, relative to the data directory, if it is inside it. */
  readonly logFolder: string | undefined;
  /** Entries of the data directory that are links and named by settings: the copy gets files of its own. */
  readonly replaced: ReadonlySet<string>;
  /** OIDs of the databases whose files are copied. */
  readonly databases: ReadonlySet<string>;
}

/** Reads the layout. @throws CopyObstacle for a link at the top of the data directory that points out of it and is not named by a setting. */
export async function readLayout(data: string, server: SourceServer, targetOid: number): Promise<Layout> {
  // The server reports the folder as it was configured, perhaps through a link.
  const asNamed = server.dataDirectory ?? data;
  const absolute = Object.entries(server.named).map(([name, value]) => {
    const place = path.resolve(asNamed, value);
    return [name, path.resolve(data, inside(asNamed, place) ?? place)] as const;
  });
  const named = new Set(absolute.map(([, place]) => place));
  const logs = absolute.find(([name]) => name === 'log_directory')?.[1];
  const logFolder = logs === undefined ? undefined : inside(data, logs);
  const replaced = new Set<string>();
  for (const entry of await readdir(data, { withFileTypes: true })) {
    if (!entry.isSymbolicLink() || entry.name === 'pg_wal') continue;
    if (named.has(path.join(data, entry.name))) replaced.add(entry.name);
    else await refuseLeadingOut(data, path.join(data, entry.name));
  }
  const wal = await realpath(path.join(data, 'pg_wal'));
  const tablespaces = await readTablespaces(data);
  const databases = new Set([String(targetOid), ...Object.values(server.neededDatabases)]);
  return { data, wal, tablespaces, logFolder, replaced, databases };
}

/** A tablespace created with allow_in_place_tablespaces is a folder, and is copied as one. */
export async function readTablespaces(data: string): Promise<Tablespace[]> {
  const place = path.join(data, 'pg_tblspc');
  const links = (await readdir(place, { withFileTypes: true })).filter((entry) => entry.isSymbolicLink());
  const found = await Promise.all(
    links.map(async ({ name: oid }) => {
      try {
        return { oid, folder: await realpath(path.join(place, oid)) };
      } catch (error) {
        // Dropped at this moment, or lost long ago: the server works without it, too.
        if (codeOf(error) === 'ENOENT') return undefined;
        throw error;
      }
    }),
  );
  return found.filter((tablespace) => tablespace !== undefined);
}

/** Refuses a link whose copy would make the second server use files of the first one. @throws CopyObstacle */
export async function refuseLeadingOut(data: string, link: string): Promise<void> {
  const content = await readlink(link);
  const leadsTo = path.resolve(path.dirname(link), content);
  if (!path.isAbsolute(content) && inside(data, leadsTo) !== undefined) return;
  throw new CopyObstacle(
    `${link} is a symbolic link to ${content}, and a copy of it would point out of the clone`,
    "replace it by what it leads to, or name that in the server's settings",
  );
}

/** Returns the path relative to the folder, if it is inside. */
export function inside(folder: string, place: string): string | undefined {
  const relative = path.relative(folder, place);
  return relative === '' || relative.startsWith('..') || path.isAbsolute(relative) ? undefined : relative;
}

const BTRFS = 0x9123683e;
const ZFS = 0x2fc12fc1;
const XFS = 0x58465342;

export type FileSystem = 'btrfs' | 'zfs' | 'xfs' | 'other';

export async function fileSystemOf(folder: string): Promise<FileSystem> {
  if (process.platform !== 'linux') return 'other';
  const { type } = await statfs(folder);
  // Some machines report the number as signed.
  const known: Record<number, FileSystem> = { [BTRFS]: 'btrfs', [ZFS]: 'zfs', [XFS]: 'xfs' };
  const inUserSpace = async () => mountOf(folder, await readMounts())?.type === 'zfs';
  return known[type >>> 0] ?? ((await inUserSpace()) ? 'zfs' : 'other');
}
