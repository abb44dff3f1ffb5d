import { networkInterfaces } from 'node:os';
import { nameOfProgram, socketInodes } from '../command/process-sockets.ts';
import type { ProcessFamily } from '../command/process-tree.ts';
import { ownPorts } from '../postgres/connection/own-backends.ts';
import type { Session } from '../postgres/connection/session.ts';
import { readSockets, type SocketView } from './socket-view.ts';

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

/** Our end of the connection as the server sees it. */
const OUR_PORT = 'SELECT inet_client_port() AS port';

/** Whether the server sees the ports of this machine as they are: no address is translated, and no pooler is in between. */
export async function seesOurPorts(control: Session): Promise<boolean> {
  const [row] = await control.query<{ port: number | null }>(OUR_PORT);
  return row?.port == null || ownPorts().has(row.port);
}

/** Finds the authors of these sessions by one reading of the sockets. @param family undefined before the command runs. */
export async function originsOf(
  ends: readonly ClientEnd[],
  family: ProcessFamily | undefined,
  { isDirect, targetPort }: { readonly isDirect: boolean; readonly targetPort: number },
): Promise<Origin[]> {
  const view = await readSockets(family, { overUnix: ends.some(({ port }) => port === UNIX_SOCKET_PORT) });
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
  if (!view.isComplete) return { kind: 'unknown', why: 'a process of the command cannot be read' };
  const holders = view.everyHolder.get(socket.inode);
  if (holders !== undefined) return heldBy(holders, view);
  // Another user's process: its files are closed to us, and the kernel still lists its user.
  if (view.unreadStrangers.has(socket.uid))
    return { kind: 'unknown', why: 'processes of its user were started while the command ran' };
  const mayAccept = view.all.some(({ state, uid }) => state === 'listening' && uid === socket.uid);
  return mayAccept ? { kind: 'relay', process: `a process of the user ${socket.uid}` } : { kind: 'others' };
}

/** @param pids more than one if a process has forked. */
async function heldBy(pids: readonly number[], { strangers, listeners }: SocketView): Promise<Origin> {
  const earlier = pids.filter((pid) => !strangers.has(pid));
  if (earlier.length === 0) return STRANGE;
  const relay = earlier.find((pid) => listeners.has(pid));
  if (relay === undefined) return { kind: 'others' };
  return { kind: 'relay', process: `${await nameOfProgram(relay)} (pid ${relay})` };
}

/** The backend's own end is known if its process can be read here; else the path of the socket has to do. */
async function ofUnixSocket({ pid }: ClientEnd, view: SocketView, targetPort: number): Promise<Origin> {
  const { peers, holders, everyHolder, isComplete } = view;
  if (peers === undefined) return { kind: 'unknown', why: 'it uses a Unix socket' };
  const clients = [...(socketInodes(pid) ?? [])].flatMap((inode) => peers.get(inode)?.inode ?? []);
  for (const inode of clients) {
    const process = holders.get(inode);
    if (process !== undefined) return { kind: 'command', process, isExact: true };
  }
  if (clients.length > 0 && isComplete) {
    const all = clients.flatMap((inode) => everyHolder.get(inode) ?? []);
    return all.length === 0 ? { kind: 'others' } : heldBy(all, view);
  }
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
