import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** The other end of a connected Unix socket. */
export interface UnixPeer {
  readonly inode: string;
  /** null if it has no path. */
  readonly path: string | null;
}

/**
 * Asks the kernel (sock_diag, by `ss` of iproute2) for the peers of all connected Unix sockets, by inode. Everybody may.
 * @returns undefined without `ss`.
 */
export async function unixPeers(): Promise<ReadonlyMap<string, UnixPeer> | undefined> {
  try {
    const { stdout } = await promisify(execFile)('ss', ['-xnH'], { maxBuffer: 64 * 2 ** 20 });
    return parseUnixPeers(stdout);
  } catch {
    return undefined;
  }
}

/** Lines as `u_str ESTAB 0 0 /run/postgresql/.s.PGSQL.5432 40011 * 40010`: type, state, queues, then path and inode of both ends. */
export function parseUnixPeers(text: string): Map<string, UnixPeer> {
  const ends = text.split('\n').flatMap((line) => {
    const match = /^u_\S+\s+\S+\s+\d+\s+\d+\s+(.*?)\s+(\d+)\s+\*\s+(\d+)\s*$/.exec(line);
    const [, path, inode, peer] = match ?? [];
    return inode && peer ? [{ inode, peer, path: path === undefined || path === '*' ? null : path }] : [];
  });
  const paths = new Map(ends.map(({ inode, path }) => [inode, path]));
  return new Map(ends.map(({ inode, peer }) => [inode, { inode: peer, path: paths.get(peer) ?? null }]));
}
