import { readdir, readlink, stat } from 'node:fs/promises';
import path from 'node:path';
import { postmasterOf } from '../command/process-sockets.ts';
import { namedFiles } from '../command/sandbox/server-folders.ts';
import type { Session } from '../postgres/connection/session.ts';

/** The configuration files of a server on this machine: path → what changes if it is written. */
export type ServerFiles = ReadonlyMap<string, string>;

const CONFIGURATION = /\.conf$/;

/**
 * Reads which configuration files a server on this machine has: those in its data directory, and in the folder that its command line
 * names. A command that runs as our user may write them if we may read the server's process.
 * @returns null if the server is elsewhere, or belongs to another user.
 */
export async function readServerFiles(session: Session): Promise<ServerFiles | null> {
  const postmaster = await postmasterOf(session);
  if (postmaster === undefined) return null;
  const files = new Map<string, string>();
  // The server may be in a container, which has other paths.
  const data = `/proc/${postmaster}/cwd`;
  for (const folder of [data, ...(await namedFiles(postmaster)).map((file) => path.dirname(file))]) {
    // Its process may be another one at the next reading.
    const known =
      folder === data ? await readlink(data).catch(() => 'data') : folder.replace(`/proc/${postmaster}`, '');
    const names = await readdir(folder).catch((): string[] => []);
    for (const name of names.filter((each) => CONFIGURATION.test(each))) {
      const found = await stat(path.join(folder, name), { bigint: true }).catch(() => undefined);
      if (found) files.set(path.join(known, name), `${found.ino} ${found.size} ${found.ctimeNs}`);
    }
  }
  return files.size === 0 ? null : files;
}

/** Names of the files that were written, made or removed between two readings. */
export function writtenFiles(before: ServerFiles | null, after: ServerFiles | null): string[] {
  if (before === null || after === null) return [];
  const all = [...new Set([...before.keys(), ...after.keys()])];
  return all.filter((file) => before.get(file) !== after.get(file)).map((file) => path.basename(file));
}
