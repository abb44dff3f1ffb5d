import { createServer, type Server, type Socket } from 'node:net';
import { A_RECORD, type NameQuestion } from './name-server.ts';

// Inside the sandbox nothing outside can be reached. What the command tries to reach is recorded here: a name gets an address of the
// loopback device, at which the usual ports listen for as long as somebody may connect, and so do the ports of this machine. A
// connection there is closed at once.

/** A place that the command must not reach: where it is found inside, and the name by which it is known outside. */
export interface RefusedPlace {
  readonly address: string;
  readonly port: number;
  readonly host: string;
}

/** A name that the command asked for, or a place that it connected to. */
export interface AttemptMessage {
  readonly type: 'asked' | 'connected' | 'spoke-postgres';
  readonly host: string;
  readonly port: number | null;
}

export interface RefusingOptions {
  /** Names that lead to relays, and their addresses. */
  readonly allowed: Readonly<Record<string, string>>;
  /** The names of this machine. */
  readonly own: readonly string[];
  /** Ports to listen at for each name. */
  readonly ports: readonly number[];
  readonly record: (message: AttemptMessage) => void;
}

const FIRST_INSIDE = [127, 66, 1, 0] as const;
const MOST_NAMES = 4_000;
const MOST_NAMED_PORTS = 100;
/** Programs connect right after they have got the answer; a port must not stay taken for longer than that. */
const LISTEN_MS = 5_000;
const LOOPBACK_ADDRESS = '127.0.0.1';

export class RefusedPlaces {
  readonly #options: RefusingOptions;
  readonly #names = new Map<
    string,
    { readonly address: string; servers: Server[]; timer?: NodeJS.Timeout }
  >();
  #ports: readonly number[];

  constructor(options: RefusingOptions) {
    this.#options = options;
    this.#ports = options.ports;
  }

  /** Adds ports to listen at for each name. */
  listenAlso(ports: readonly number[]): void {
    this.#ports = [...new Set([...this.#ports, ...ports.slice(0, MOST_NAMED_PORTS)])];
  }

  /** Listens at a place until the end of the sandbox. */
  async refuse({ address, port, host }: RefusedPlace): Promise<void> {
    await this.#listen(address, port, host);
  }

  /** Answers a question for a name, and listens for those who connect next. */
  async answer({ name, type }: NameQuestion): Promise<string | null | undefined> {
    const { allowed, own, record } = this.#options;
    if (allowed[name] !== undefined) return allowed[name];
    if (name === 'localhost' || name.endsWith('.localhost') || own.includes(name)) return LOOPBACK_ADDRESS;
    // `10.0.0.127.in-addr.arpa` asks who has an address, and a service's `_tcp` is a part of no host's name.
    if (name === '' || name.endsWith('.arpa')) return undefined;
    const host = name.replace(/^(_[^.]*\.)+/, '');
    record({ type: 'asked', host, port: null });
    if (host !== name || this.#names.size >= MOST_NAMES) return null;
    if (type === A_RECORD) return this.#open(host);
    return null;
  }

  async #open(host: string): Promise<string> {
    const known = this.#names.get(host) ?? { address: addressInside(this.#names.size), servers: [] };
    this.#names.set(host, known);
    clearTimeout(known.timer);
    known.timer = setTimeout(() => {
      for (const server of known.servers.splice(0)) server.close();
    }, LISTEN_MS).unref();
    if (known.servers.length === 0) {
      const opened = this.#ports.map((port) => this.#listen(known.address, port, host));
      known.servers = (await Promise.all(opened)).filter((server) => server !== undefined);
    }
    return known.address;
  }

  /** @returns undefined if the command listens there itself. */
  #listen(address: string, port: number, host: string): Promise<Server | undefined> {
    const server = createServer((socket) => void this.#close(socket, { address, port, host }));
    server.unref();
    return new Promise((resolve) => {
      server.on('error', () => resolve(undefined));
      server.listen({ host: address, port }, () => resolve(server));
    });
  }

  async #close(socket: Socket, { host, port }: RefusedPlace): Promise<void> {
    const { record } = this.#options;
    socket.unref();
    socket.on('error', () => socket.destroy());
    record({ type: 'connected', host, port });
    const { closeWithWords } = await import('./first-bytes.ts');
    closeWithWords(socket, { host, port }, () => record({ type: 'spoke-postgres', host, port }));
  }
}

function addressInside(index: number): string {
  const [a, b, c] = FIRST_INSIDE;
  return `${a}.${b}.${c + Math.floor(index / 250)}.${(index % 250) + 1}`;
}
