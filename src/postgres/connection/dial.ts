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

/** A connection that is ready for the start-up message: nothing has been sent or read but the TLS handshake. */
export interface Link {
  /** A TLSSocket if `encrypted`. */
  readonly socket: Socket;
  /** The address as the settings name hostTry. */
  readonly address: HostAndPort;
  readonly encrypted: boolean;
  readonly user: string;
  readonly password: string | undefined;
  /**
   * Checks the parameters that the server reported (ParameterStatus); to be called when it is ready. Throws if
   * `target_session_attrs` requires another kind of server; callers let that error pass, so that the next host is tried.
   */
  accept(reported: ReadonlyMap<string, string>): void;
}

/** The server is not the kind that `target_session_attrs` asks for. */
class NotWanted extends Error {}

const CANNOT_CONNECT_NOW = '57P03';
const DEFAULT_TIMEOUT_S = 10;

/**
 * Connects, in libpq's order of hosts, their addresses, and plain or TLS. If an address cannot be reached, the next address is
 * tried; if a server is starting up or of the wrong kind, the next host. If a login is refused, the next TLS attempt at the same
 * address is made, and its answer is final: no other host is tried.
 *
 * `login` gets each link in turn and resolves with its result; if it rejects, the socket is destroyed.
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

/** Returns undefined if the next host may be tried. */
async function tryHost<T>(hostTry: HostTry<T>): Promise<{ value: T } | undefined> {
  const { settings, host, attempts } = hostTry;
  let addresses: Address[];
  try {
    const hostAddress = settings.parameters.hostaddr?.split(',')[hostTry.index]?.trim();
    addresses = await within(hostTry, () => {}, resolveHost(host, hostAddress));
  } catch (error) {
    throwIfFinal(error, hostTry.signal);
    attempts.push({ host, error });
    return undefined;
  }
  for (const address of addresses) {
    const attemptsLeft = tlsAttempts(settings, host);
    for (let encryption = attemptsLeft.shift(); encryption; encryption = attemptsLeft.shift()) {
      const attempt = { plainFallback: attemptsLeft[0] === 'plain', usedFallback: false };
      try {
        return { value: await tryLogin(hostTry, address, encryption, attempt) };
      } catch (error) {
        throwIfFinal(error, hostTry.signal);
        attempts.push({ host, error });
        if (attempt.usedFallback) attemptsLeft.shift();
        if (error instanceof NotWanted || sqlstateOf(error) === CANNOT_CONNECT_NOW) return undefined;
        if (error instanceof Unreachable || error instanceof TimedOut) break;
        if (attemptsLeft.length === 0) throw connectionFailure(settings, attempts);
      }
    }
  }
  return undefined;
}

async function tryLogin<T>(
  hostTry: HostTry<T>,
  address: Address,
  encryption: TlsAttempt,
  attempt: { plainFallback: boolean; usedFallback: boolean },
): Promise<T> {
  let open: Socket | undefined;
  const work = async (): Promise<T> => {
    let socket = await openSocket(address, (opening) => {
      open = opening;
    });
    let encrypted = false;
    if (encryption === 'tls') {
      try {
        socket = await encrypt(socket, address, hostTry.settings);
        open = socket;
        encrypted = true;
      } catch (error) {
        if (!(error instanceof TlsFailed && error.unsupported && attempt.plainFallback)) throw error;
        attempt.usedFallback = true;
      }
    }
    return await hostTry.login({
      socket,
      address: hostTry.host,
      encrypted,
      user: hostTry.settings.user,
      password: hostTry.settings.password,
      accept: (reported) => {
        const refusal = acceptsServer(hostTry.wanted, reported);
        if (refusal !== undefined) throw new NotWanted(refusal);
      },
    });
  };
  try {
    return await within(hostTry, (reason) => open?.destroy(reason), work());
  } catch (error) {
    // A late error of an abandoned socket must not end the process.
    open?.on('error', () => {});
    open?.destroy();
    throw error;
  }
}

/** Returns the limit for each address, with the login, as libpq's connect_timeout: 0 is no limit, no value is our default. */
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

/** Lists the attempts for an address. sslmode concerns TCP only: a Unix socket is never encrypted. */
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

/** The values of `target_session_attrs`. */
type SessionAttributes = 'any' | 'read-write' | 'read-only' | 'primary' | 'standby';

/** Returns the wanted kinds for each pass over all hosts: `prefer-standby` is a standby first, then any server. */
function sessionAttributePasses(value: string | undefined): SessionAttributes[] {
  switch (value) {
    case 'read-write':
    case 'read-only':
    case 'primary':
    case 'standby':
      return [value];
    case 'prefer-standby':
      return ['standby', 'any'];
    default:
      return ['any'];
  }
}

/**
 * Returns the reason why the server is not of the wanted kind, or undefined if it is. From version 14 on every server
 * reports both settings at login; one that reports neither (a pooler) cannot be judged and is accepted.
 */
function acceptsServer(wanted: SessionAttributes, reported: ReadonlyMap<string, string>): string | undefined {
  const standby = reported.get('in_hot_standby') === 'on';
  const readOnly = standby || reported.get('default_transaction_read_only') === 'on';
  switch (wanted) {
    case 'read-write':
      return readOnly ? 'the session is read-only' : undefined;
    case 'read-only':
      return readOnly ? undefined : 'the session is not read-only';
    case 'primary':
      return standby ? 'the server is in hot standby mode' : undefined;
    case 'standby':
      return standby ? undefined : 'the server is not in hot standby mode';
    case 'any':
      return undefined;
  }
}
