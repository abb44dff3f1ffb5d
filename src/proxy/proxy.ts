import { once, setMaxListeners } from 'node:events';
import { createServer, type ListenOptions, type Server, type Socket } from 'node:net';
import { steadyDate } from '../clock.ts';
import type { RunCertificate } from '../command/sandbox/run-certificate.ts';
import { messageOf, SafemigrateError } from '../errors.ts';
import { DirectTls, ProtocolError } from '../postgres/protocol/frames.ts';
import { errorResponse, STARTUP } from '../postgres/protocol/messages.ts';
import { endsWithin } from '../postgres/session-helpers.ts';
import { BusyPolling } from './busy-polling.ts';
import { Encryption } from './encryption.ts';
import { type Admitted, Entrance, type EntranceOptions, OPEN } from './entrance.ts';
import type { Observe, Observer, ReadLocks } from './observed.ts';
import { PipedSession } from './piped-session.ts';
import { ProxySession } from './proxy-session.ts';
import { ProxyState } from './proxy-state.ts';
import { Refusal, receiveStartup, type Startup } from './startup.ts';
import { ServerRefusal } from './upstream.ts';

export interface ProxyOptions extends EntranceOptions {
  /** Default: this machine alone (127.0.0.1), any free port. */
  readonly listen?: { readonly host: string; readonly port?: number };
  /** Listens already, in the network of the command's sandbox; instead of `listen`. */
  readonly listener?: Server | undefined;
  /** Hands over further clients: they connect at a place that only the command can reach. */
  readonly inPlaceOfTarget?: ClientSource;
  /** Default `exact`. */
  readonly observe?: Observe;
  readonly observer?: Observer;
  /** Needed for `exact`; without it, locks are `unknown`. */
  readonly readLocks?: ReadLocks;
  /** The server's server_version_num. Protocol 3.2 is spoken if the server does, as far as that is known. */
  readonly serverVersionNum?: number;
}

interface ClientSource {
  serve(onClient: (client: Socket) => void): void;
  close(): Promise<void>;
  /** null: clients get no TLS. */
  readonly certificate: RunCertificate | null;
}

export interface WireProxy {
  readonly host: string;
  readonly port: number;
  /** Sessions that were let in so far. */
  readonly sessions: number;
  /** A client left because it was not given TLS. */
  readonly leftForTls: boolean;
  /** A client left because it does not trust the certificate of the run. */
  readonly leftForTrust: boolean;
  /** Roles that entered in the target's place without being asked for their password. */
  readonly untriedPasswords: ReadonlySet<string>;
  /** Ends every session, and goes on listening; resolves when all have ended. */
  disconnect(): Promise<void>;
  /** Ends every session and stops listening; resolves when all have ended. */
  close(): Promise<void>;
}

const SPEAKS_32 = 180000;
const CONNECTION_FAILURE = '08006';
const PROTOCOL_VIOLATION = '08P01';
const STARTUP_TIMEOUT_MS = 60_000;
/** Clients that have not logged in yet: of more than so many the oldest is ended, so that they cannot use up memory and descriptors. */
const MOST_ARRIVING = 1_000;
/**
 * For a server to notice that its client has gone, and to close (behind a cut network it would take a quarter of an hour), and for
 * a client to read the last answer and to close.
 */
const LEAVE_WITHIN_MS = 10_000;

/** Starts the proxy. @throws Node's error when the address cannot be listened on. */
export async function startProxy(options: ProxyOptions): Promise<WireProxy> {
  const proxy = new ObservingProxy(options);
  await proxy.listen();
  return proxy;
}

class ObservingProxy implements WireProxy {
  host = '';
  port = 0;
  sessions = 0;
  leftForTls = false;
  leftForTrust = false;
  readonly #options: ProxyOptions;
  readonly #entrance: Entrance;
  readonly #encryption: Encryption | undefined;
  readonly #state: ProxyState;
  readonly #observer: Observer;
  /** By the key that a cancel request repeats. */
  readonly #running = new Map<string, ProxySession | PipedSession>();
  readonly #sockets = new Set<Socket>();
  /** Clients that have not logged in yet, the oldest first. */
  readonly #arriving = new Set<Socket>();
  readonly #served = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  readonly #polling = new BusyPolling();
  readonly #server: Server;

  constructor(options: ProxyOptions) {
    this.#options = options;
    // One listener for each client that is logging in, however many there are.
    setMaxListeners(0, this.#stop.signal);
    this.#entrance = new Entrance(options, this.#stop.signal);
    this.#observer = options.observe === 'off' ? () => {} : (options.observer ?? (() => {}));
    this.#state = new ProxyState(this.#observer, options.readLocks ?? (async () => null));
    const certificate = options.inPlaceOfTarget?.certificate;
    this.#encryption = certificate ? new Encryption(certificate) : undefined;
    const settings = { allowHalfOpen: true, noDelay: true, pauseOnConnect: true };
    this.#server = createServer(settings, (socket) => this.#take(socket, false));
  }

  get untriedPasswords(): ReadonlySet<string> {
    return this.#entrance.untriedPasswords;
  }

  #take(socket: Socket, inPlaceOfTarget: boolean): void {
    const served = this.#serve(socket, inPlaceOfTarget).finally(() => this.#served.delete(served));
    this.#served.add(served);
  }

  async listen(): Promise<void> {
    const { listener, inPlaceOfTarget, listen: { host, port = 0 } = { host: '127.0.0.1' } } = this.#options;
    inPlaceOfTarget?.serve((socket) => this.#take(socket, true));
    if (listener) this.#server.listen(listener);
    else await listening(this.#server, { host, port, backlog: 511 });
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the proxy has no address');
    this.host = address.address;
    this.port = address.port;
  }

  async disconnect(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    const served = Promise.all(this.#served);
    if (await endsWithin(served, LEAVE_WITHIN_MS)) return;
    for (const session of this.#running.values()) session.abandon();
    await served;
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#stop.abort();
    await Promise.all([this.disconnect(), closed, this.#options.inPlaceOfTarget?.close()]);
  }

  async #serve(socket: Socket, inPlaceOfTarget: boolean): Promise<void> {
    this.#sockets.add(socket);
    this.#arrive(socket);
    socket.on('close', () => {
      this.#sockets.delete(socket);
      this.#arriving.delete(socket);
    });
    socket.on('error', () => {});
    const timer = setTimeout(() => socket.destroy(), STARTUP_TIMEOUT_MS);
    let client = socket;
    try {
      const encryption = inPlaceOfTarget ? this.#encryption : undefined;
      const encrypt = async (plain: Socket) => {
        const encrypted = await encryption?.encrypt(plain);
        client = encrypted ?? plain;
        return encrypted;
      };
      const arrival = await receiveStartup(socket, this.#newestProtocol(), encryption && encrypt);
      if (arrival?.kind === 'cancel') await this.#running.get(arrival.key.toString('base64'))?.cancel();
      if (arrival?.kind === 'without TLS') this.leftForTls = true;
      if (arrival?.kind === 'without trust') this.leftForTrust = true;
      if (arrival?.kind !== 'session') return;
      const admitted = await this.#entrance.admit(client, arrival, {
        inPlaceOfTarget,
        certificateHash: client === socket ? undefined : encryption?.certificateHash,
      });
      clearTimeout(timer);
      this.#arriving.delete(socket);
      await this.#serveSession(client, admitted, arrival.startup);
    } catch (error) {
      if (error instanceof DirectTls) this.leftForTls = true;
      if (client.writable) client.write(refusalOf(error));
    } finally {
      clearTimeout(timer);
      leave(client);
    }
  }

  #arrive(socket: Socket): void {
    this.#arriving.add(socket);
    const [oldest] = this.#arriving;
    if (this.#arriving.size > MOST_ARRIVING) oldest?.destroy();
  }

  async #serveSession(
    socket: Socket,
    { reader, upstream, given, readOnly }: Admitted,
    startup: Startup,
  ): Promise<void> {
    const number = ++this.sessions;
    const { user, database } = startup;
    const { observe = 'exact', gate = OPEN } = this.#options;
    const parts = {
      client: socket,
      reader,
      upstream,
      observe,
      gate,
      state: this.#state,
      lockTimeoutGiven: given.has('lock_timeout'),
      readOnly,
      who: { session: number, user, database },
    };
    const heard = this.#polling.exchange();
    socket.on('data', () => heard('client'));
    upstream.socket.on('data', () => heard('server'));
    const isPiped = observe === 'off' && gate.open === true;
    const session = isPiped ? new PipedSession(parts) : new ProxySession(parts);
    const key = upstream.key.toString('base64');
    const { parameters } = startup;
    const application = new Map(parameters).get('application_name') ?? '';
    const { pid } = upstream;
    this.#observer({ type: 'session', session: number, pid, user, database, application, parameters });
    this.#running.set(key, session);
    await session.run();
    this.#running.delete(key);
    const { workedMs } = session;
    this.#observer({ type: 'session-end', session: number, pid, at: steadyDate(), workedMs });
  }

  #newestProtocol(): number {
    const { serverVersionNum = SPEAKS_32 } = this.#options;
    return serverVersionNum >= SPEAKS_32 ? STARTUP.version32 : STARTUP.version3;
  }
}

/** Ends a connection, also one whose client keeps its half open for ever. */
function leave(socket: Socket): void {
  socket.end();
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LEAVE_WITHIN_MS);
  timer.unref();
  socket.once('close', () => clearTimeout(timer));
}

/** Builds the error for a client whose connection cannot be made. */
function refusalOf(error: unknown): Buffer {
  if (error instanceof Refusal) return error.response;
  if (error instanceof Error && error.cause instanceof ServerRefusal) return error.cause.response;
  const sqlstate = error instanceof ProtocolError ? PROTOCOL_VIOLATION : CONNECTION_FAILURE;
  return errorResponse({ severity: 'FATAL', sqlstate, message: messageOf(error) });
}

/** Checks that a proxy can listen at an address. @throws SafemigrateError `USAGE` */
export async function requireListening(host: string): Promise<void> {
  const server = createServer();
  await listening(server, { host, port: 0 });
  server.close();
}

async function listening(server: Server, where: ListenOptions): Promise<void> {
  try {
    server.listen(where);
    await once(server, 'listening');
  } catch (error) {
    const hint = 'Name an address that this machine has. The target was not touched.';
    throw new SafemigrateError(
      'USAGE',
      `SAFEMIGRATE_PROXY_LISTEN=${where.host} cannot be used: ${messageOf(error)}.`,
      {
        cause: error,
        hint,
      },
    );
  }
}
