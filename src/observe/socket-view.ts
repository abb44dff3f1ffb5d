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
  /** Processes that may have been started for the command by somebody else. */
  readonly strangers: ReadonlySet<number>;
  /** Users of strangers whose sockets cannot be read. */
  readonly unreadStrangers: ReadonlySet<number>;
  /** Every TCP socket of this network namespace. */
  readonly all: readonly ListedSocket[];
  readonly peers: ReadonlyMap<string, UnixPeer> | undefined;
  /** By the inode of any socket: the processes that have it open, as far as that can be read. */
  readonly everyHolder: ReadonlyMap<string, readonly number[]>;
  /** Processes that accept connections. */
  readonly listeners: ReadonlySet<number>;
}

/** Reads them. @param family of the command; undefined before it has one. */
export async function readSockets(
  family: ProcessFamily | undefined,
  { overUnix }: { readonly overUnix: boolean },
): Promise<SocketView> {
  const pids = (await family?.pids()) ?? [];
  const strangers = family?.strangers() ?? [];
  const inodes = pids.map((pid) => ({ pid, open: socketInodes(pid) }));
  // First: a process that ends in between leaves a socket without an inode, and not one without a holder.
  const everyHolder = readHolders();
  const all = await listSockets(process.pid);
  const listening = [
    ...all.flatMap(({ state, inode }) => (state === 'listening' ? [inode] : [])),
    ...(await listeningUnixSockets()).map(({ inode }) => inode),
  ];
  return {
    command: (await Promise.all(pids.map(socketsOf))).flat(),
    holders: new Map(
      inodes.flatMap(({ pid, open }) => [...(open ?? [])].map((inode) => [inode, pid] as const)),
    ),
    isComplete: inodes.every(({ open }) => open !== undefined),
    strangers: new Set(strangers),
    unreadStrangers: new Set(strangers.flatMap((pid) => (socketInodes(pid) ? [] : (ownerOf(pid) ?? [])))),
    all,
    peers: overUnix ? await unixPeers() : undefined,
    everyHolder,
    listeners: new Set(listening.flatMap((inode) => everyHolder.get(inode) ?? [])),
  };
}

/** Of 250 processes this takes some 10 ms. */
function readHolders(): Map<string, number[]> {
  const holders = new Map<string, number[]>();
  if (process.platform !== 'linux') return holders;
  for (const pid of readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)) {
    for (const inode of socketInodes(pid) ?? []) holders.set(inode, [...(holders.get(inode) ?? []), pid]);
  }
  return holders;
}

/** Of a process that has ended there is none. */
function ownerOf(pid: number): number | undefined {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid;
}
