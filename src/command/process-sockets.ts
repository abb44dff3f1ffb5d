import { execFile } from 'node:child_process';
import { readdirSync, readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { parentOf } from '../clone/cluster/recognise.ts';
import type { Session } from '../postgres/connection/session.ts';
import { unixPeers } from './sandbox/unix-sockets.ts';

/** A TCP connection of a process of the command. */
export interface ProcessSocket {
  readonly pid: number;
  /** The process's own address, which its peer sees if no NAT is in between. */
  readonly address: string;
  readonly port: number;
  readonly peerPort: number;
}

/** For display: the process's command line, or its id if it has ended. */
export async function nameOfProcess(pid: number): Promise<string> {
  try {
    if (process.platform === 'linux') {
      return (
        (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ').trim() || `process ${pid}`
      );
    }
    const { stdout } = await promisify(execFile)('ps', ['-p', String(pid), '-o', 'command=']);
    return stdout.trim();
  } catch {
    return `process ${pid}`;
  }
}

/**
 * Lists the TCP sockets of one process: the kernel lists those of its network namespace with their inodes, to which its file
 * descriptors link.
 */
export async function socketsOf(pid: number): Promise<ProcessSocket[]> {
  if (process.platform !== 'linux') return fromLsof([pid]);
  const inodes = socketInodes(pid);
  if (inodes === undefined || inodes.size === 0) return [];
  const found = (await listSockets(pid)).filter(({ inode }) => inodes.has(inode));
  return found.map(({ address, port, peerPort }) => ({ pid, address, port, peerPort }));
}

/** Lists all TCP sockets in the network namespace of a process; the inode of one that no process has open is 0. */
export async function listSockets(pid: number): Promise<ListedSocket[]> {
  const tables = await Promise.all(
    ['tcp', 'tcp6'].map((name) => readFile(`/proc/${pid}/net/${name}`, 'utf8').catch(() => '')),
  );
  return parseSocketTables(tables.join('\n'));
}

/** Inodes of the sockets that a process has open; undefined if they cannot be read: another user's. None if it has ended. */
export function socketInodes(pid: number): Set<string> | undefined {
  const folder = `/proc/${pid}/fd`;
  try {
    const links = readdirSync(folder).map((name) => linkOrEmpty(`${folder}/${name}`));
    return new Set(links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []));
  } catch (error) {
    const isDenied = error instanceof Error && 'code' in error && error.code === 'EACCES';
    return isDenied ? undefined : new Set();
  }
}

/** Tells if a process is in our network namespace; false if it has ended. */
export function sharesNetwork(pid: number): boolean {
  return process.platform !== 'linux' || networkOf(pid) === networkOf(process.pid);
}

function networkOf(pid: number): string {
  return linkOrEmpty(`/proc/${pid}/ns/net`);
}

/** A descriptor that was closed since has none. */
function linkOrEmpty(file: string): string {
  try {
    return readlinkSync(file);
  } catch {
    return '';
  }
}

/** For display: the program and the script that a process runs, without arguments, which may hold secrets. */
export async function nameOfProgram(pid: number): Promise<string> {
  const [program = '', script = ''] = (await nameOfProcess(pid)).split(' ');
  return /^[/.\w][\w./-]*$/.test(script) ? `${program} ${script}` : program;
}

/** `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode`. */
const LINE =
  /^ *\d+: ([\dA-F]+):([\dA-F]+) ([\dA-F]+):([\dA-F]+) ([\dA-F]+) \S+ \S+ \S+ +(\d+) +\d+ (\d+)/gim;
/** The kernel's states of a connection, as the tables have them. */
const STATES: Readonly<Record<string, ListedSocket['state']>> = { '01': 'established', '0A': 'listening' };

/** A line of the kernel's tables. */
export interface ListedSocket extends Omit<ProcessSocket, 'pid'> {
  readonly peerAddress: string;
  readonly state: 'established' | 'listening' | 'other';
  /** User that made the socket. */
  readonly uid: number;
  readonly inode: string;
}

/** Lines of /proc/net/tcp and tcp6, addresses in the machine's byte order. There are 100,000 beside a busy pooler, with few addresses. */
export function parseSocketTables(text: string): ListedSocket[] {
  const addresses = new Map<string, string>();
  const addressOf = (hex: string) => {
    const known = addresses.get(hex) ?? readAddress(hex);
    addresses.set(hex, known);
    return known;
  };
  return Array.from(
    text.matchAll(LINE),
    ([, address = '', port = '', peerAddress = '', peerPort = '', state = '', uid, inode = '']) => ({
      address: addressOf(address),
      port: Number.parseInt(port, 16),
      peerAddress: addressOf(peerAddress),
      peerPort: Number.parseInt(peerPort, 16),
      state: STATES[state] ?? 'other',
      uid: Number(uid),
      inode,
    }),
  );
}

/** Each group of eight digits is a machine word (little-endian on all of Node's platforms except s390x). */
function readAddress(hex: string): string {
  const bytes = Buffer.from(hex, 'hex');
  if (LITTLE_ENDIAN) bytes.swap32();
  if (bytes.length === 4) return bytes.join('.');
  if (bytes.subarray(0, 12).equals(V4_IN_V6)) return bytes.subarray(12).join('.');
  const words = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(index * 2).toString(16));
  return new URL(`http://[${words.join(':')}]`).hostname.slice(1, -1);
}

const LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
const V4_IN_V6 = Buffer.from('00000000000000000000ffff', 'hex');

async function fromLsof(pids: readonly number[]): Promise<ProcessSocket[]> {
  if (pids.length === 0) return [];
  try {
    const { stdout } = await promisify(execFile)('lsof', [
      '-nP',
      '-a',
      '-iTCP',
      '-Fpn',
      '-p',
      pids.join(','),
    ]);
    return parseLsof(stdout);
  } catch {
    // It exits with 1 if there is nothing to list.
    return [];
  }
}

/** `p123` starts a process; `n127.0.0.1:5000->127.0.0.1:5432` is one of its connections. */
export function parseLsof(text: string): ProcessSocket[] {
  let pid = 0;
  return text.split('\n').flatMap((line) => {
    if (line.startsWith('p')) pid = Number(line.slice(1));
    const match = /^n\[?([^\]]*?)\]?:(\d+)->.*:(\d+)/.exec(line);
    return match?.[1] === undefined
      ? []
      : [{ pid, address: match[1], port: Number(match[2]), peerPort: Number(match[3]) }];
  });
}

/** Our end of the connection as the server sees it: another one if an address is translated in between; -1 for a Unix socket. */
const OUR_PORT = 'SELECT inet_client_port() AS port';
const UNIX_SOCKET_PORT = -1;

/**
 * Finds the postmaster of a server on this machine. That the process with the backend's id is our backend is proved by its end of our
 * connection, since a server in a container has other process ids.
 * @returns undefined if the server is elsewhere, or its processes cannot be read by our user.
 */
export async function postmasterOf(session: Session): Promise<number | undefined> {
  const found = postmasters.get(session) ?? findPostmaster(session);
  postmasters.set(session, found);
  return found;
}

/** A backend keeps its postmaster as long as it lives, and the kernel takes some 10 ms to list its sockets. */
const postmasters = new WeakMap<Session, Promise<number | undefined>>();

async function findPostmaster(session: Session): Promise<number | undefined> {
  if (process.platform !== 'linux') return undefined;
  const { pid } = session;
  const [row] = await session.query<{ port: number | null }>(OUR_PORT);
  const port = row?.port ?? UNIX_SOCKET_PORT;
  const isOurs =
    port === UNIX_SOCKET_PORT
      ? await isUnixPeer(pid)
      : (await socketsOf(pid)).some(({ peerPort }) => peerPort === port);
  return isOurs ? await parentOf(pid) : undefined;
}

async function isUnixPeer(pid: number): Promise<boolean> {
  const [peers, backend, own] = [await unixPeers(), socketInodes(pid), socketInodes(process.pid)];
  return [...(backend ?? [])].some((inode) => own?.has(peers?.get(inode)?.inode ?? ''));
}
