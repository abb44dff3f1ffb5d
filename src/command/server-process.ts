import { parentOf } from '../clone/cluster/recognise.ts';
import type { Session } from '../postgres/connection/session.ts';
import { socketInodes, socketsOf } from './process-sockets.ts';
import { unixPeers } from './unix-peers.ts';

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
