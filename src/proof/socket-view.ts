import { readdirSync, statSync } from 'node:fs';
import {
  type ListedSocket,
  listSockets,
  type ProcessSocket,
  socketInodes,
  socketsOf,
} from '../command/process-sockets.ts';
import type { ProcessFamily } from '../command/process-tree.ts';
import { listeningUnixSockets } from '../command/sandbox/unix-sockets.ts';
import { type UnixPeer, unixPeers } from '../command/unix-peers.ts';

/** The sockets of this machine and the processes that hold them, at one moment. */
export interface SocketView {
  /** TCP sockets of the command. */
  readonly command: readonly ProcessSocket[];
  /** By the inode of a Unix socket: the command's process that has it open. */
  readonly holders: ReadonlyMap<string, number>;
  /** Each descriptor of the command could be read. */
  readonly isComplete: boolean;
  /** Every TCP socket of this network namespace. */
  readonly all: readonly ListedSocket[];
  readonly peers: ReadonlyMap<string, UnixPeer> | undefined;
  /** Inodes of sockets of processes that may have been started for the command by somebody else. */
  readonly ofStrangers: ReadonlySet<string>;
  /** Users of such processes whose sockets cannot be read. */
  readonly unreadStrangers: ReadonlySet<number>;
  /** By the inode of a socket: the process that has it open and accepts connections itself. */
  readonly ofListeners: ReadonlyMap<string, number>;
}

/** The processes that accept connections, found once: to read the sockets of 500 processes takes 40 ms. */
export class ListeningProcesses {
  #found: Promise<readonly number[]> | undefined;

  pids(): Promise<readonly number[]> {
    this.#found ??= findListening();
    return this.#found;
  }
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

/** Reads them. @param family of the command; undefined before it has one. */
export async function readSockets(
  family: ProcessFamily | undefined,
  { listening, overUnix }: { readonly listening: ListeningProcesses; readonly overUnix: boolean },
): Promise<SocketView> {
  const pids = (await family?.pids()) ?? [];
  const strangers = (family?.strangers() ?? []).map((pid) => ({ pid, open: socketInodes(pid) }));
  const inodes = pids.map((pid) => ({ pid, open: socketInodes(pid) }));
  const command = (await Promise.all(pids.map(socketsOf))).flat();
  const ofListeners = byInode((await listening.pids()).map((pid) => ({ pid, open: socketInodes(pid) })));
  // Read last: a socket that is still there was held by its process while the processes were read.
  const [all, peers] = await Promise.all([listSockets(process.pid), overUnix ? unixPeers() : undefined]);
  return {
    command,
    holders: byInode(inodes),
    isComplete: inodes.every(({ open }) => open !== undefined),
    all,
    peers,
    ofStrangers: new Set(byInode(strangers).keys()),
    unreadStrangers: new Set(strangers.flatMap(({ pid, open }) => (open ? [] : (ownerOf(pid) ?? [])))),
    ofListeners,
  };
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
