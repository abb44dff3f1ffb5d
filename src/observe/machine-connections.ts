import { listSockets } from '../command/process-sockets.ts';
import { ownPorts } from '../postgres/connection/own-backends.ts';
import { isOwnAddress } from './session-origin.ts';

/**
 * Notices TCP connections from this machine to the target's server that are not ours. Whoever ends a connection keeps it as
 * TIME_WAIT for 60 s, so that one of a millisecond is found as well.
 */
export class MachineConnections {
  /** One was found, or they cannot be listed here. */
  found = process.platform !== 'linux';
  readonly #port: number;
  #before: ReadonlySet<number> = new Set();

  private constructor(port: number) {
    this.#port = port;
  }

  /** Connections that are there already do not count. @param port of the server. */
  static async since(port: number): Promise<MachineConnections> {
    const connections = new MachineConnections(port);
    connections.#before = await connections.#foreignPorts();
    return connections;
  }

  /** To be called at least once a minute, and at the end. */
  async look(): Promise<void> {
    if (this.found) return;
    const now = await this.#foreignPorts();
    this.found = [...now].some((port) => !this.#before.has(port));
  }

  /** The clients' ends; if the server ended a connection first, it keeps the other end. */
  async #foreignPorts(): Promise<Set<number>> {
    const own = ownPorts();
    const clients = (await listSockets(process.pid)).flatMap(({ port, peerAddress, peerPort }) => {
      if (peerPort === this.#port) return [port];
      return port === this.#port && peerPort !== 0 && isOwnAddress(peerAddress) ? [peerPort] : [];
    });
    return new Set(clients.filter((port) => !own.has(port)));
  }
}
