import { once, setMaxListeners } from 'node:events';
import { createServer, type ListenOptions, type Server, type Socket } from 'node:net';
import { steadyDate } from '../clock.ts';
import type { Route } from '../command/rewrite.ts';
import { messageOf, SafemigrateError } from '../errors.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { PieceReader } from '../postgres/protocol/frame-reader.ts';
import { DirectTls, ProtocolError } from '../postgres/protocol/frames.ts';
import { AUTHENTICATION, authentication, errorResponse, STARTUP } from '../postgres/protocol/messages.ts';
import { ScramVerifier } from '../postgres/protocol/scram.ts';
import { settingsAtStart, withSettings } from '../postgres/protocol/startup-settings.ts';
import { endsWithin } from '../postgres/session-helpers.ts';
import { BusyPolling } from './busy-polling.ts';
import type { Gate, Observe, Observer, ReadLocks } from './observed.ts';
import { PipedSession } from './piped-session.ts';
import { ProxySession } from './proxy-session.ts';
import { ProxyState } from './proxy-state.ts';
import { logInReadOnly } from './read-only-login.ts';
import { type Arrival, authenticate, Refusal, receiveStartup, type Startup } from './startup.ts';
import { logIn, ServerRefusal, type Upstream } from './upstream.ts';

export interface ProxyOptions {
  /** Who is let in, under which name of a database, and the server that it connects to. */
  readonly routes: readonly Pick<Route, 'user' | 'database' | 'upstream'>[];
  /** The password for all of them. */
  readonly secret: string;
  /** Default: this machine alone (127.0.0.1), any free port. */
  readonly listen?: { readonly host: string; readonly port?: number };
  /** Listens already, in the network of the command's sandbox; instead of `listen`. */
  readonly listener?: Server | undefined;
  /** Default `exact`. */
  readonly observe?: Observe;
  readonly observer?: Observer;
  /** Needed for `exact`; without it, locks are `unknown`. */
  readonly readLocks?: ReadLocks;
  /** Default: everything may run. */
  readonly gate?: Gate;
  /** The server's server_version_num. Protocol 3.2 is spoken if the server does, as far as that is known. */
  readonly serverVersionNum?: number;
  /** Settings that sessions begin with, unless their client's start-up message has them. */
  readonly settings?: Readonly<Record<string, string>>;
  /**
   * Returns what another database name connects to, for the user of a route (a maintenance database, databases that the
   * command creates), or undefined if there is no such database.
   */
  readonly otherDatabase?: (name: string, upstream: ConnectionSettings) => ConnectionSettings | undefined;
}

export interface WireProxy {
  readonly host: string;
  readonly port: number;
  /** Sessions that were let in so far. */
  readonly sessions: number;
  /** A client left because it was not given TLS. */
  readonly leftForTls: boolean;
  /** Ends every session, and goes on listening; resolves when all have ended. */
  disconnect(): Promise<void>;
  /** Ends every session and stops listening; resolves when all have ended. */
  close(): Promise<void>;
}

interface Admitted {
  readonly reader: PieceReader;
  readonly upstream: Upstream;
  /** Names of the settings that were added to the client's own. */
  readonly given: ReadonlySet<string>;
  readonly readOnly: boolean;
}

const SPEAKS_32 = 180000;
const OPEN: Gate = { before: () => 'run', open: true };
const UNKNOWN_DATABASE = '3D000';
const INVALID_AUTHORIZATION = '28000';
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
  readonly #options: ProxyOptions;
  readonly #verifier: ScramVerifier;
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
    this.#verifier = new ScramVerifier(options.secret);
    this.#observer = options.observe === 'off' ? () => {} : (options.observer ?? (() => {}));
    this.#state = new ProxyState(this.#observer, options.readLocks ?? (async () => null));
    this.#server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true }, (socket) => {
      const served = this.#serve(socket).finally(() => this.#served.delete(served));
      this.#served.add(served);
    });
  }

  async listen(): Promise<void> {
    const { listener, listen: { host, port = 0 } = { host: '127.0.0.1' } } = this.#options;
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
    await Promise.all([this.disconnect(), closed]);
  }

  async #serve(socket: Socket): Promise<void> {
    this.#sockets.add(socket);
    this.#arrive(socket);
    socket.on('close', () => {
      this.#sockets.delete(socket);
      this.#arriving.delete(socket);
    });
    socket.on('error', () => {});
    const timer = setTimeout(() => socket.destroy(), STARTUP_TIMEOUT_MS);
    try {
      const arrival = await receiveStartup(socket, this.#newestProtocol());
      if (arrival?.kind === 'cancel') await this.#running.get(arrival.key.toString('base64'))?.cancel();
      if (arrival?.kind === 'without TLS') this.leftForTls = true;
      if (arrival?.kind !== 'session') return;
      const admitted = await this.#admit(socket, arrival);
      clearTimeout(timer);
      this.#arriving.delete(socket);
      await this.#serveSession(socket, admitted, arrival.startup);
    } catch (error) {
      if (error instanceof DirectTls) this.leftForTls = true;
      if (socket.writable) socket.write(refusalOf(error));
    } finally {
      clearTimeout(timer);
      leave(socket);
    }
  }

  #arrive(socket: Socket): void {
    this.#arriving.add(socket);
    const [oldest] = this.#arriving;
    if (this.#arriving.size > MOST_ARRIVING) oldest?.destroy();
  }

  /** Logs a client that knows the secret in upstream, and sends it the server's own greeting. */
  async #admit(socket: Socket, { startup, rest }: Extract<Arrival, { kind: 'session' }>): Promise<Admitted> {
    const reader = await authenticate(socket, { startup, rest }, this.#verifier);
    const { gate = OPEN } = this.#options;
    const answer = gate.begins?.(settingsAtStart(startup.parameters)) ?? 'run';
    if (answer !== 'run') throw new Refusal(answer);
    const { parameters, given } = withSettings(startup.parameters, this.#options.settings ?? {});
    const readOnly = gate.readsOnly?.(startup.database) === true;
    const login = readOnly ? logInReadOnly : logIn;
    const upstream = await login(this.#settingsFor(startup), parameters, this.#stop.signal, startup.version);
    socket.write(Buffer.concat([authentication(AUTHENTICATION.ok), ...upstream.greeting]));
    return { reader, upstream, given, readOnly };
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

  #settingsFor({ user, database }: Startup): ConnectionSettings {
    const { routes, otherDatabase } = this.#options;
    const ofUser = routes.filter((route) => route.user === user);
    const [first] = ofUser;
    if (!first)
      throw new Refusal({
        sqlstate: INVALID_AUTHORIZATION,
        message: `The role "${user}" is not one that the rehearsal was given.`,
        hint: `It was given ${named(routes.map((route) => route.user))}.`,
      });
    const found = ofUser.find((route) => route.database === database)?.upstream;
    const settings = found ?? otherDatabase?.(database, first.upstream);
    if (settings) return settings;
    throw new Refusal({
      sqlstate: UNKNOWN_DATABASE,
      message: `database "${database}" is not part of this rehearsal`,
      hint: `It offers ${named(ofUser.map((route) => route.database))}.`,
    });
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

function named(names: readonly string[]): string {
  return [...new Set(names)].map((name) => `"${name}"`).join(', ');
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
