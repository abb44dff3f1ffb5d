import { networkInterfaces } from 'node:os';
import { listSockets, type ProcessSocket, socketInodes, socketsOf } from '../command/process-sockets.ts';
import type { ProcessFamily } from '../command/process-tree.ts';
import { type UnixPeer, unixPeers } from '../command/unix-peers.ts';
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
 * Whose a session is. `command` and `others` are proved: a process of the command holds the socket, or somebody else does. Neither
 * is if no process holds it any more (its process was killed while the statement runs on), or if the socket cannot be seen.
 */
export type Origin =
  | { readonly kind: 'command'; readonly process: number; readonly isExact: boolean }
  | { readonly kind: 'others' }
  | { readonly kind: 'unknown'; readonly why: string };

const UNIX_SOCKET_PORT = -1;
const STRANGE: Origin = { kind: 'unknown', why: 'its process was started while the command ran' };

/** What is known of the machine's sockets at one moment. */
interface SocketView {
  readonly command: readonly ProcessSocket[];
  /** By the inode of a Unix socket: the command's process that has it open. */
  readonly holders: ReadonlyMap<string, number>;
  /** Every TCP socket of this network namespace. */
  readonly all: Awaited<ReturnType<typeof listSockets>>;
  readonly peers: ReadonlyMap<string, UnixPeer> | undefined;
  /** Sockets of processes that may have been started for the command by somebody else. */
  readonly ofStrangers: ReadonlySet<string>;
  /** Each descriptor of the command could be read. */
  readonly isComplete: boolean;
}

/** Our end of the connection as the server sees it. */
const OUR_PORT = 'SELECT inet_client_port() AS port';

/** Whether the server sees the ports of this machine as they are: no address is translated, and no pooler is in between. */
export async function seesOurPorts(control: Session): Promise<boolean> {
  const [row] = await control.query<{ port: number | null }>(OUR_PORT);
  return row?.port == null || ownPorts().has(row.port);
}

/** Finds out whose sessions these are, all by one reading of the sockets. */
export async function originsOf(
  ends: readonly ClientEnd[],
  family: ProcessFamily,
  { isDirect, targetPort }: { readonly isDirect: boolean; readonly targetPort: number },
): Promise<Origin[]> {
  const view = await readSockets(await family.pids(), family.strangers(), ends);
  return Promise.all(
    ends.map(async (end) => {
      if (end.port === null) return { kind: 'unknown', why: 'its address is hidden from the role' };
      return end.port === UNIX_SOCKET_PORT
        ? ofUnixSocket(end, view, targetPort)
        : ofTcpSocket(end, view, isDirect);
    }),
  );
}

async function readSockets(
  pids: readonly number[],
  strangers: readonly number[],
  ends: readonly ClientEnd[],
): Promise<SocketView> {
  const overUnix = ends.some(({ port }) => port === UNIX_SOCKET_PORT);
  const inodes = pids.map((pid) => ({ pid, open: socketInodes(pid) }));
  return {
    command: (await Promise.all(pids.map(socketsOf))).flat(),
    holders: new Map(
      inodes.flatMap(({ pid, open }) => [...(open ?? [])].map((inode) => [inode, pid] as const)),
    ),
    all: await listSockets(process.pid),
    peers: overUnix ? await unixPeers() : undefined,
    ofStrangers: new Set(strangers.flatMap((pid) => [...(socketInodes(pid) ?? [])])),
    isComplete: inodes.every(({ open }) => open !== undefined),
  };
}

function ofTcpSocket({ address, port }: ClientEnd, view: SocketView, isDirect: boolean): Origin {
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
  if (view.ofStrangers.has(socket.inode)) return STRANGE;
  return view.isComplete
    ? { kind: 'others' }
    : { kind: 'unknown', why: 'a process of the command cannot be read' };
}

/** The backend's own end is known if its process can be read here; else the path of the socket has to do. */
async function ofUnixSocket({ pid }: ClientEnd, view: SocketView, targetPort: number): Promise<Origin> {
  const { peers, holders, ofStrangers } = view;
  if (peers === undefined) return { kind: 'unknown', why: 'it uses a Unix socket' };
  const backend = socketInodes(pid) ?? new Set<string>();
  for (const inode of backend) {
    const process = holders.get(peers.get(inode)?.inode ?? '');
    if (process !== undefined) return { kind: 'command', process, isExact: true };
    if (ofStrangers.has(peers.get(inode)?.inode ?? '')) return STRANGE;
  }
  const connected = [...backend].some((inode) => peers.has(inode));
  if (connected && view.isComplete) return { kind: 'others' };
  const name = `.s.PGSQL.${targetPort}`;
  const holder = [...holders].find(([inode]) => peers.get(inode)?.path?.endsWith(`/${name}`));
  if (holder) return { kind: 'command', process: holder[1], isExact: false };
  return { kind: 'unknown', why: 'it uses a Unix socket' };
}

/** Whether a host of connection settings is this machine: a folder of Unix sockets, or an address. */
export function isOwnHost(host: string): boolean {
  return host.startsWith('/') || host.startsWith('@') || host === 'localhost' || isOwnAddress(host);
}

/** Whether an address is one of this machine; null, a Unix socket, is. */
export function isOwnAddress(address: string | null): boolean {
  if (address === null) return true;
  const own = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  return address.startsWith('127.') || own.some((each) => each.address === address);
}
