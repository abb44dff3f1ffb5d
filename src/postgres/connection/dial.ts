import type { Socket } from 'node:net';
import { SafemigrateError, sqlstateOf } from '../../errors.ts';
import { type ConnectionAttempt, connectionFailure, TimedOut } from './connection-failures.ts';
import type { ConnectionSettings, HostAndPort } from './connection-settings.ts';
import {
  type Address,
  encrypt,
  isSocketFolder,
  openSocket,
  resolveHost,
  type TlsAttempt,
  TlsFailed,
  Unreachable,
} from './link.ts';
import { acceptsServer, type SessionAttributes, sessionAttributePasses } from './session-attributes.ts';

export { openLink } from './link.ts';

/** A connection that is ready for the start-up message: nothing has been sent or read but the TLS handshake. */
export interface Link {
  /** A TLSSocket where `encrypted`. */
  readonly socket: Socket;
  /** As the settings name it. */
  readonly address: HostAndPort;
  readonly encrypted: boolean;
  readonly user: string;
  readonly password: string | undefined;
  /**
   * To be called when the server is ready, with what it reported as ParameterStatus. Throws when
   * `target_session_attrs` asks for another kind of server; let it pass through, and the next host is tried.
   */
  accept(reported: ReadonlyMap<string, string>): void;
}

/** The server is not the kind that `target_session_attrs` asks for. */
class NotWanted extends Error {}

const CANNOT_CONNECT_NOW = '57P03';
const DEFAULT_TIMEOUT_S = 10;

/**
 * The one ladder for every connection: hosts, their addresses, and plain or TLS, in libpq's order. What cannot be
 * reached makes way for the next address; a server that is starting up, or of the wrong kind, for the next host; a
 * refused login for the next rung of the same address, and then that is the answer: no other host is asked.
 *
 * `login` gets each link in turn and resolves with whatever it makes of it; when it rejects, the socket is destroyed.
 * A rejection that carries a server's `code` and `severity` counts as the server's refusal.
 * @throws SafemigrateError `CONNECTION`, `CONFIGURATION` (TLS files), `INTERRUPTED` (signal), or login's own.
 */
export async function dial<T>(
  settings: ConnectionSettings,
  login: (link: Link) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const attempts: ConnectionAttempt[] = [];
  for (const wanted of sessionAttributePasses(settings.parameters.target_session_attrs)) {
    for (const [index, host] of inOrder(settings)) {
      const result = await tryHost({ settings, host, index, wanted, login, attempts, signal });
      if (result) return result.value;
    }
  }
  throw connectionFailure(settings, attempts);
}

interface HostTry<T> {
  settings: ConnectionSettings;
  host: HostAndPort;
  index: number;
  wanted: SessionAttributes;
  login: (link: Link) => Promise<T>;
  attempts: ConnectionAttempt[];
  signal: AbortSignal | undefined;
}

/** undefined: the next host may be tried. */
async function tryHost<T>(it: HostTry<T>): Promise<{ value: T } | undefined> {
  const { settings, host, attempts } = it;
  let addresses: Address[];
  try {
    const hostAddress = settings.parameters.hostaddr?.split(',')[it.index]?.trim();
    addresses = await within(it, () => {}, resolveHost(host, hostAddress));
  } catch (error) {
    throwIfFinal(error, it.signal);
    attempts.push({ host, error });
    return undefined;
  }
  for (const address of addresses) {
    const rungs = tlsAttempts(settings, host);
    for (let rung = rungs.shift(); rung; rung = rungs.shift()) {
      const attempt = { plainFallback: rungs[0] === 'plain', usedFallback: false };
      try {
        return { value: await tryRung(it, address, rung, attempt) };
      } catch (error) {
        throwIfFinal(error, it.signal);
        attempts.push({ host, error });
        if (attempt.usedFallback) rungs.shift();
        if (error instanceof NotWanted || sqlstateOf(error) === CANNOT_CONNECT_NOW) return undefined;
        if (error instanceof Unreachable || error instanceof TimedOut) break;
        if (rungs.length === 0) throw connectionFailure(settings, attempts);
      }
    }
  }
  return undefined;
}

async function tryRung<T>(
  it: HostTry<T>,
  address: Address,
  rung: TlsAttempt,
  attempt: { plainFallback: boolean; usedFallback: boolean },
): Promise<T> {
  let open: Socket | undefined;
  const work = async (): Promise<T> => {
    let socket = await openSocket(address, (opening) => {
      open = opening;
    });
    let encrypted = false;
    if (rung === 'tls') {
      try {
        socket = await encrypt(socket, address, it.settings);
        open = socket;
        encrypted = true;
      } catch (error) {
        if (!(error instanceof TlsFailed && error.unsupported && attempt.plainFallback)) throw error;
        attempt.usedFallback = true;
      }
    }
    return await it.login({
      socket,
      address: it.host,
      encrypted,
      user: it.settings.user,
      password: it.settings.password,
      accept: (reported) => {
        const refusal = acceptsServer(it.wanted, reported);
        if (refusal !== undefined) throw new NotWanted(refusal);
      },
    });
  };
  try {
    return await within(it, (reason) => open?.destroy(reason), work());
  } catch (error) {
    // A late error of a socket that is given up must not end the process.
    open?.on('error', () => {});
    open?.destroy();
    throw error;
  }
}

/** libpq's connect_timeout counts for each address, the login included; 0 is no limit, no value is ours. */
async function within<R>(
  { settings, signal }: Pick<HostTry<unknown>, 'settings' | 'signal'>,
  giveUp: (reason: Error) => void,
  work: Promise<R>,
): Promise<R> {
  const seconds = Number(settings.parameters.connect_timeout || DEFAULT_TIMEOUT_S);
  let timer: NodeJS.Timeout | undefined;
  let onAbort = () => {};
  const cut = new Promise<never>((_resolve, reject) => {
    const end = (reason: Error) => {
      reject(reason);
      giveUp(reason);
    };
    onAbort = () => end(interrupted());
    if (seconds > 0) timer = setTimeout(() => end(new TimedOut(seconds)), seconds * 1000);
    if (signal?.aborted) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
  });
  work.catch(() => {});
  try {
    return await Promise.race([cut, work]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}

function throwIfFinal(error: unknown, signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw interrupted();
  if (error instanceof SafemigrateError) throw error;
}

function interrupted(): SafemigrateError {
  return new SafemigrateError('INTERRUPTED', 'Interrupted while connecting to the server.');
}

/** sslmode is about TCP: a Unix socket is never encrypted. */
export function tlsAttempts(
  { sslmode, parameters }: ConnectionSettings,
  { host }: HostAndPort,
): TlsAttempt[] {
  if (isSocketFolder(host) || sslmode === 'disable') return ['plain'];
  if (sslmode === 'allow') return ['plain', 'tls'];
  if (sslmode === 'prefer' && parameters.sslnegotiation !== 'direct') return ['tls', 'plain'];
  return ['tls'];
}

function inOrder({ hosts, parameters }: ConnectionSettings): [number, HostAndPort][] {
  const list = [...hosts.entries()];
  if (parameters.load_balance_hosts !== 'random') return list;
  return list
    .map((entry) => ({ entry, chance: Math.random() }))
    .sort((a, b) => a.chance - b.chance)
    .map(({ entry }) => entry);
}
