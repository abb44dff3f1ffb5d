import { execFile } from 'node:child_process';
import { readdirSync, realpathSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';

const FLAGS = 3;
const INODE = 6;
/** The kernel's SO_ACCEPTCON. */
const LISTENING = 0x10000;

/** Lists the Unix sockets in the file system that a process of this network namespace listens on. */
export async function listeningUnixSockets() {
  return parseUnixSockets(await readFile('/proc/net/unix', 'utf8').catch(() => ''));
}

/** Lines of /proc/net/unix: `Num RefCount Protocol Flags Type St Inode Path`. */
export function parseUnixSockets(text: string): { readonly path: string; readonly inode: string }[] {
  return text.split('\n').flatMap((line) => {
    const fields = line.split(/ +/);
    const at = line.indexOf(' /');
    const inode = fields[INODE];
    if (at < 0 || inode === undefined) return [];
    const listens = (Number.parseInt(fields[FLAGS] ?? '0', 16) & LISTENING) !== 0;
    return listens ? [{ path: line.slice(at + 1), inode }] : [];
  });
}

/** Sockets of services that answer questions about users and names, without which programs lose their user's name. */
const NAME_SERVICES = /\/(nscd|sss\/pipes|systemd\/userdb|winbindd)\//;

/** Each cover takes bubblewrap the longer the more there are (1,000: some seconds), and it takes 3,000 at most. */
const MANY_SOCKETS = 32;

/**
 * Lists the paths that are covered in a sandbox, so that nothing there can connect to a Unix socket of this machine. Folders that hold
 * nothing else are covered as a whole: PostgreSQL's, since a restarted server makes its sockets again, and those of many sockets.
 * @param visible paths that are to stay.
 */
export async function pathsToCover(
  visible: readonly string[],
  further: readonly string[],
): Promise<string[]> {
  const stays = new Set(visible.flatMap((each) => realSocket(each) ?? []));
  const listening = (await listeningUnixSockets()).map((socket) => socket.path);
  const sockets = [...listening, ...further].flatMap((each) => realSocket(each) ?? []);
  const wanted = sockets.filter((each) => !stays.has(each) && !NAME_SERVICES.test(each));
  const folders = new Map<string, Set<string>>();
  for (const each of wanted) {
    const folder = path.dirname(each);
    folders.set(folder, (folders.get(folder) ?? new Set()).add(each));
  }
  return [...folders].flatMap(([folder, covered]) =>
    isCoveredWhole(folder, covered, stays) ? [folder] : [...covered],
  );
}

/** With links resolved; undefined if there is no such socket. */
export function realSocket(file: string): string | undefined {
  try {
    const real = realpathSync(file);
    return statSync(real).isSocket() ? real : undefined;
  } catch {
    return undefined;
  }
}

function isCoveredWhole(folder: string, sockets: ReadonlySet<string>, stays: ReadonlySet<string>): boolean {
  try {
    const files = readdirSync(folder).map((name) => path.join(folder, name));
    const ofPostgres = files.every((file) => path.basename(file).startsWith('.s.PGSQL.') && !stays.has(file));
    return ofPostgres || (sockets.size >= MANY_SOCKETS && files.every((file) => sockets.has(file)));
  } catch {
    return false;
  }
}

/** Paths of the sockets that these settings name. */
export function socketPathsOf({ hosts }: ConnectionSettings): string[] {
  return hosts.flatMap(({ host, port }) => (host.startsWith('/') ? [`${host}/.s.PGSQL.${port}`] : []));
}

/**
 * Asks the kernel (sock_diag, by `ss` of iproute2) for the peers of all connected Unix sockets, by inode. Everybody may.
 * @returns undefined without `ss`.
 */
export async function unixPeers(): Promise<ReturnType<typeof parseUnixPeers> | undefined> {
  try {
    const { stdout } = await promisify(execFile)('ss', ['-xnH'], { maxBuffer: 64 * 2 ** 20 });
    return parseUnixPeers(stdout);
  } catch {
    return undefined;
  }
}

/**
 * Parses lines as `u_str ESTAB 0 0 /run/postgresql/.s.PGSQL.5432 40011 * 40010`: type, state, queues, then path and inode of both ends.
 * @returns the other end of each socket, by the socket's inode; `path` is null if it has none.
 */
export function parseUnixPeers(text: string) {
  const ends = text.split('\n').flatMap((line) => {
    const match = /^u_\S+\s+\S+\s+\d+\s+\d+\s+(.*?)\s+(\d+)\s+\*\s+(\d+)\s*$/.exec(line);
    const [, path, inode, peer] = match ?? [];
    return inode && peer ? [{ inode, peer, path: path === undefined || path === '*' ? null : path }] : [];
  });
  const paths = new Map(ends.map(({ inode, path }) => [inode, path]));
  return new Map(ends.map(({ inode, peer }) => [inode, { inode: peer, path: paths.get(peer) ?? null }]));
}
