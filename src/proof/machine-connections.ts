import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type ListedSocket, listSockets } from '../command/process-sockets.ts';
import { isSocketFolder } from '../postgres/connection/link.ts';
import { ownPorts } from '../postgres/connection/own-backends.ts';
import type { Session } from '../postgres/connection/session.ts';
import { isOwnAddress } from './session-origin.ts';

/**
 * Notices TCP connections from this machine to the target's server that are not ours. Whoever ends a connection keeps it as
 * TIME_WAIT for 60 s, so that one of a millisecond is found as well.
 */
export class MachineConnections {
  readonly #port: number;
  readonly #isServer: (address: string) => boolean;
  #before: ReadonlySet<number> = new Set();
  /** Ports of the clients; those that still have a connection are true. */
  readonly #found = new Map<number, boolean>();

  private constructor(port: number, isServer: (address: string) => boolean) {
    this.#port = port;
    this.#isServer = isServer;
  }

  /** Connections that are there already do not count. @param isDirect the server sees our ports as they are. */
  static async since(control: Session, isDirect: boolean): Promise<MachineConnections> {
    const connections = new MachineConnections(
      control.address.port,
      await serverAddresses(control, isDirect),
    );
    connections.#before = new Set((await connections.#foreign()).keys());
    return connections;
  }

  /** One was found, or they cannot be listed here. */
  get found(): boolean {
    return process.platform !== 'linux' || this.#found.size > 0;
  }

  /** To be called at least once a minute, and at the end. */
  async look(): Promise<void> {
    for (const [port, isOpen] of await this.#foreign())
      if (!this.#before.has(port)) this.#found.set(port, isOpen);
  }

  /**
   * Counts the connections that belong to no session. One that is open may be about to log in, and is given some time.
   * @param sessionPorts reads the clients' ports of all sessions that were seen.
   */
  async countStray(sessionPorts: () => Promise<ReadonlySet<number>>): Promise<number> {
    for (let attempt = 1; ; attempt++) {
      await this.look();
      const known = await sessionPorts();
      const stray = [...this.#found].filter(([port]) => !known.has(port));
      if (attempt === LOOKS_AT_LOGIN || stray.every(([, isOpen]) => !isOpen)) return stray.length;
      await delay(LOGIN_PAUSE_MS);
    }
  }

  /** The clients' ends; if the server ended a connection first, it keeps the other end. */
  async #foreign(): Promise<Map<number, boolean>> {
    const own = ownPorts();
    const ends = (await listSockets(process.pid)).flatMap((socket) => this.#clientOf(socket));
    return new Map(ends.filter(([port]) => !own.has(port)));
  }

  #clientOf({ port, address, peerAddress, peerPort, state }: ListedSocket): [number, boolean][] {
    const isOpen = state === 'established';
    if (peerPort === this.#port && this.#isServer(peerAddress)) return [[port, isOpen]];
    const isServerEnd = port === this.#port && peerPort !== 0 && this.#isServer(address);
    return isServerEnd && isOwnAddress(peerAddress) ? [[peerPort, isOpen]] : [];
  }
}

const LOOKS_AT_LOGIN = 10;
const LOGIN_PAUSE_MS = 50;

const SERVER_ADDRESS = 'SELECT host(inet_server_addr()) AS address';

/** Recognises the addresses of the server: another server may listen on the same port elsewhere. */
async function serverAddresses(control: Session, isDirect: boolean): Promise<(address: string) => boolean> {
  const { host } = control.address;
  // A forwarder, such as Docker's, connects to the address that the server itself sees, also for our own sessions.
  const [row] = isDirect ? await control.query<{ address: string | null }>(SERVER_ADDRESS) : [];
  const isName = !isSocketFolder(host) && isIP(host) === 0;
  const named = isName ? await lookup(host, { all: true }).catch(() => []) : [];
  const known = new Set([host, row?.address, ...named.map(({ address }) => address)]);
  // It may listen on each of them.
  const isHere = isSocketFolder(host) || [...known].some((each) => each && isIP(each) && isOwnAddress(each));
  return (address) => known.has(address) || (isHere && isOwnAddress(address));
}
