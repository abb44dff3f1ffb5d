import { readdirSync, statSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import {
  listSockets,
  nameOfProgram,
  type ProcessSocket,
  sharesNetwork,
  socketInodes,
  socketsOf,
} from '../command/process-sockets.ts';
import type { ProcessFamily } from '../command/process-tree.ts';
import { listeningUnixSockets, unixPeers } from '../command/sandbox/unix-sockets.ts';
import { ownPorts } from '../postgres/connection/own-backends.ts';
import type { Session } from '../postgres/connection/session.ts';

/** Where a session of the target's server came from, as the server sees it. */
export interface ClientEnd {
  /** The backend's process. */
  readonly pid: number;
  readonly address: string | null;
  /** -1: a Unix socket; null: hidden from our role. */
  readonly port: number | null;
}

/**
 * Author of a session. `command` and `others` are proved: a process of the command holds the socket, or somebody else does. So is
 * `relay`, somebody else who accepts connections itself (PgBouncer, a tunnel, a service), so that the command may work through it.
 * It is unknown if no process holds the socket any more (the process was killed while its statement runs on), or if the socket
 * cannot be seen.
 */
export type Origin =
  | { readonly kind: 'command'; readonly process: number; readonly isExact: boolean }
  | { readonly kind: 'others' }
  | { readonly kind: 'relay'; readonly process: string }
  | { readonly kind: 'unknown'; readonly why: string };

const UNIX_SOCKET_PORT = -1;
const STRANGE: Origin = { kind: 'unknown', why: 'its process was started while the command ran' };

/** Tells if the server sees this machine's ports unchanged: no address is translated, and no pooler is in between. */
export async function seesOurPorts(control: Session): Promise<boolean> {
  const [row] = await control.query<{ port: number | null }>('SELECT inet_client_port() AS port');
  return row?.port == null || ownPorts().has(row.port);
}

/** Further facts for finding the author of a session. */
export interface OriginContext {
  /** The server sees the ports of this machine as they are. */
  readonly isDirect: boolean;
  readonly targetPort: number;
  readonly listening: ReturnType<typeof listeningProcesses>;
}

/** Finds the authors of these sessions by one reading of the sockets. @param family undefined before the command runs. */
export async function originsOf(
  ends: readonly ClientEnd[],
  family: ProcessFamily | undefined,
  { isDirect, targetPort, listening }: OriginContext,
): Promise<Origin[]> {
  const overUnix = ends.some(({ port }) => port === UNIX_SOCKET_PORT);
  const view = await readSockets(family, listening, overUnix);
  return Promise.all(
    ends.map(async (end) => {
      if (end.port === null) return { kind: 'unknown', why: 'its address is hidden from the role' };
      return end.port === UNIX_SOCKET_PORT
        ? ofUnixSocket(end, view, targetPort)
        : ofTcpSocket(end, view, isDirect);
    }),
  );
}

async function ofTcpSocket(
  { address, port }: ClientEnd,
  view: SocketView,
  isDirect: boolean,
): Promise<Origin> {
  const isThis = (socket: { address: string; port: number }) =>
    socket.address === address && socket.port === port;
  const owner = view.command.find(isThis);
  if (owner) return { kind: 'command', process: owner.pid, isExact: true };
  if (!isDirect)
    return { kind: 'unknown', why: 'an address is translated between this machine and the server' };
  const socket = view.all.find(isThis);
  if (socket === undefined && !isOwnAddress(address)) return { kind: 'others' };
  // No process holds a socket without an inode: whoever did has ended.
  if (socket === undefined || socket.inode === '0') return { kind: 'unknown', why: 'its process has ended' };
  const doubt = await doubtOf(socket.inode, view);
  if (doubt) return doubt;
  if (!view.isComplete) return { kind: 'unknown', why: 'a process of the command cannot be read' };
  return ofOtherUser(socket.uid, view) ?? { kind: 'others' };
}

/** A socket of this machine that is not the command's, and may serve it all the same. */
async function doubtOf(inode: string, { ofListeners, ofStrangers }: SocketView): Promise<Origin | undefined> {
  const pid = ofListeners.get(inode);
  if (pid !== undefined) return { kind: 'relay', process: `${await nameOfProgram(pid)} (pid ${pid})` };
  return ofStrangers.has(inode) ? STRANGE : undefined;
}

/** The sockets of other users' processes cannot be read, unless we are root; the kernel lists the user of each. */
function ofOtherUser(uid: number, { unreadStrangers, all }: SocketView): Origin | undefined {
  const own = process.getuid?.() ?? 0;
  if (own === 0 || own === uid) return undefined;
  if (unreadStrangers.has(uid))
    return { kind: 'unknown', why: 'its user has processes that were started while the command ran' };
  const mayAccept = all.some((each) => each.state === 'listening' && each.uid === uid);
  return mayAccept ? { kind: 'relay', process: `a process of user ${uid}` } : undefined;
}

/** The backend's own end is known if its process can be read here; else the path of the socket has to do. */
async function ofUnixSocket({ pid }: ClientEnd, view: SocketView, targetPort: number): Promise<Origin> {
  const { peers, holders } = view;
  if (peers === undefined) return { kind: 'unknown', why: 'it uses a Unix socket' };
  const clients = [...(socketInodes(pid) ?? [])].flatMap((inode) => peers.get(inode)?.inode ?? []);
  for (const inode of clients) {
    const process = holders.get(inode);
    if (process !== undefined) return { kind: 'command', process, isExact: true };
    const doubt = await doubtOf(inode, view);
    if (doubt) return doubt;
  }
  if (clients.length > 0 && view.isComplete) return { kind: 'others' };
  const name = `.s.PGSQL.${targetPort}`;
  const holder = [...holders].find(([inode]) => peers.get(inode)?.path?.endsWith(`/${name}`));
  if (holder) return { kind: 'command', process: holder[1], isExact: false };
  return { kind: 'unknown', why: 'it uses a Unix socket' };
}

/** Tells if a host of connection settings is this machine: a folder of Unix sockets, or an address. */
export function isOwnHost(host: string): boolean {
  return host.startsWith('/') || host.startsWith('@') || host === 'localhost' || isOwnAddress(host);
}

/** Tells if an address is one of this machine; null, a Unix socket, is. */
export function isOwnAddress(address: string | null): boolean {
  if (address === null) return true;
  const own = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  return isLoopback(address) || own.some((each) => each.address === address);
}

/** Finds the processes that accept connections, once: to read the sockets of 500 processes takes 40 ms. */
export function listeningProcesses(): () => Promise<readonly number[]> {
  let found: Promise<readonly number[]> | undefined;
  return () => {
    found ??= findListening();
    return found;
  };
}

async function findListening(): Promise<readonly number[]> {
  if (process.platform !== 'linux') return [];
  const tcp = (await listSockets(process.pid)).filter(({ state }) => state === 'listening');
  const inodes = [...tcp, ...(await listeningUnixSockets())].map(({ inode }) => inode);
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const open = socketInodes(pid);
      return open !== undefined && inodes.some((inode) => open.has(inode));
    });
}

/** The sockets of this machine and the processes that hold them, at one moment. */
type SocketView = Awaited<ReturnType<typeof readSockets>>;

/** @param family of the command; undefined before it has one. @param overUnix Unix sockets are needed, too. */
async function readSockets(
  family: ProcessFamily | undefined,
  listening: OriginContext['listening'],
  overUnix: boolean,
) {
  const pids = (await family?.pids()) ?? [];
  const strangers = (family?.strangers() ?? []).map((pid) => ({ pid, open: socketInodes(pid) }));
  const inodes = pids.map((pid) => ({ pid, open: socketInodes(pid) }));
  const command = (await Promise.all(pids.map(visibleSocketsOf))).flat();
  const ofListeners = byInode((await listening()).map((pid) => ({ pid, open: socketInodes(pid) })));
  // Read last: a socket that is still there was held by its process while the processes were read.
  const [all, peers] = await Promise.all([listSockets(process.pid), overUnix ? unixPeers() : undefined]);
  return {
    /** TCP sockets of the command. */
    command,
    /** By the inode of a socket: the command's process that has it open. */
    holders: byInode(inodes),
    /** Each descriptor of the command could be read. */
    isComplete: inodes.every(({ open }) => open !== undefined),
    /** Every TCP socket of this network namespace. */
    all,
    peers,
    /** Inodes of sockets of processes that may have been started for the command by others. */
    ofStrangers: new Set(byInode(strangers).keys()),
    /** Users of such processes whose sockets cannot be read. */
    unreadStrangers: new Set(strangers.flatMap(({ pid, open }) => (open ? [] : (ownerOf(pid) ?? [])))),
    /** By the inode of a socket: the process that has it open and accepts connections itself. */
    ofListeners,
  };
}

/**
 * Lists the TCP sockets of a process that a server may see. The loopback addresses of another network namespace, such as a sandbox's,
 * are not among them: the same address and port may be another client's here.
 */
async function visibleSocketsOf(pid: number): Promise<ProcessSocket[]> {
  const isHere = sharesNetwork(pid);
  const sockets = await socketsOf(pid);
  return isHere ? sockets : sockets.filter(({ address }) => !isLoopback(address));
}

function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}

function byInode(
  processes: readonly { readonly pid: number; readonly open: ReadonlySet<string> | undefined }[],
): Map<string, number> {
  return new Map(
    processes.flatMap(({ pid, open }) => [...(open ?? [])].map((inode) => [inode, pid] as const)),
  );
}

/** Returns undefined if the process has ended. */
function ownerOf(pid: number): number | undefined {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid;
}
