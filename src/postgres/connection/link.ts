import { type LookupAddress, lookup } from 'node:dns';
import { isIP, connect as netConnect, type Socket } from 'node:net';
import { connect as tlsConnect } from 'node:tls';
import type { ConnectionSettings, HostAndPort } from './connection-settings.ts';
import { recordOwnPort } from './own-backends.ts';
import { tlsOptions } from './tls.ts';

/** Encrypted or not; sslmode says in which order these are tried. */
export type TlsAttempt = 'plain' | 'tls';

/** One address of a host, with the host as the settings name it. */
export interface Address extends HostAndPort {
  /** An IP address, or the path of a Unix socket. */
  readonly where: string;
}

/** The server could not be reached at this address; another one may answer. */
export class Unreachable extends Error {}

/** The server was reached, but TLS failed. */
export class TlsFailed extends Error {
  /** The server answered that it does not offer TLS. */
  readonly unsupported: boolean;

  constructor(message: string, options: { cause?: unknown; unsupported?: boolean } = {}) {
    super(message, { cause: options.cause });
    this.unsupported = options.unsupported ?? false;
  }
}

const KEEPALIVE_IDLE_MS = 10_000;
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);
const TLS_OFFERED = 'S';
const TLS_NOT_OFFERED = 'N';

/** Resolves a host's name to its addresses, in the resolver's order. @throws Unreachable */
export async function resolveHost(
  { host, port }: HostAndPort,
  hostAddress: string | undefined,
): Promise<Address[]> {
  if (isSocketFolder(host)) return [{ host, port, where: `${host}/.s.PGSQL.${port}` }];
  const name = hostAddress || host;
  if (isIP(name) !== 0) return [{ host, port, where: name }];
  const found = await new Promise<LookupAddress[]>((resolve, reject) =>
    lookup(name, { all: true, verbatim: true }, (error, addresses) =>
      error ? reject(new Unreachable(error.message, { cause: error })) : resolve(addresses),
    ),
  );
  return found.map(({ address }) => ({ host, port, where: address }));
}

/** Tells whether a host is the folder of a Unix socket; `@` is Linux's abstract name space. */
export function isSocketFolder(host: string): boolean {
  return host.startsWith('/') || host.startsWith('@');
}

/** Connects to the address. Destroying the socket, which `onSocket` gets at once, rejects. @throws Unreachable */
export function openSocket(address: Address, onSocket: (socket: Socket) => void): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const { host, port, where } = address;
    const socket = isSocketFolder(host)
      ? netConnect({ path: where.replace(/^@/, '\0') })
      : netConnect({ host: where, port });
    onSocket(socket);
    socket.setNoDelay(true);
    // A peer that vanished without closing is noticed even while a query runs.
    socket.setKeepAlive(true, KEEPALIVE_IDLE_MS);
    const settle = settler(socket, (error) => reject(new Unreachable(error.message, { cause: error })));
    socket.once('connect', () => {
      recordOwnPort(socket.localPort);
      settle(() => resolve(socket));
    });
  });
}

/**
 * Starts TLS on the connected socket, after an SSLRequest or, with `sslnegotiation=direct`, at once.
 * @throws TlsFailed; with `unsupported`, the socket can still be used without TLS.
 */
export async function encrypt(
  socket: Socket,
  address: Address,
  settings: ConnectionSettings,
): Promise<Socket> {
  const direct = settings.parameters.sslnegotiation === 'direct';
  const options = tlsOptions(settings, address);
  if (!direct) await askForTls(socket);
  const servername =
    isIP(address.host) === 0 && settings.parameters.sslsni !== '0' ? { servername: address.host } : {};
  return await new Promise<Socket>((resolve, reject) => {
    const secure = tlsConnect({ ...options, ...servername, socket });
    const settle = settler(secure, (error) => reject(new TlsFailed(error.message, { cause: error })));
    secure.once('secureConnect', () =>
      settle(() => {
        if (direct && secure.alpnProtocol !== 'postgresql')
          reject(new TlsFailed('the server did not agree to speak PostgreSQL over TLS (ALPN)'));
        else resolve(secure);
      }),
    );
  });
}

/** The limit for a cancel request, which the server answers by closing the connection. */
const SILENCE_MS = 5_000;

/**
 * Opens a connection without logging in, to the address and with the TLS attempt of an earlier successful login.
 * It is destroyed if the other side does not answer for 5 s.
 */
export async function openLink(
  settings: ConnectionSettings,
  host: HostAndPort,
  encryption: TlsAttempt,
): Promise<Socket> {
  const [address] = await resolveHost(host, undefined);
  if (!address) throw new Unreachable(`${host.host} has no address`);
  const socket = await openSocket(address, (opening) =>
    opening.setTimeout(SILENCE_MS, () => opening.destroy()),
  );
  return encryption === 'tls' ? await encrypt(socket, address, settings) : socket;
}

async function askForTls(socket: Socket): Promise<void> {
  const answer = await new Promise<Buffer>((resolve, reject) => {
    const settle = settler(socket, (error) => reject(new TlsFailed(error.message, { cause: error })));
    socket.once('data', (chunk: Buffer) =>
      settle(() => {
        socket.pause();
        resolve(chunk);
      }),
    );
    socket.write(SSL_REQUEST);
  });
  const letter = String.fromCharCode(answer[0] ?? 0);
  if (letter === TLS_NOT_OFFERED && answer.length === 1) {
    socket.resume();
    throw new TlsFailed('the server does not offer TLS', { unsupported: true });
  }
  // More than one byte before the handshake is not encrypted, and may be injected by an attacker (CVE-2021-23222).
  if (letter !== TLS_OFFERED || answer.length !== 1)
    throw new TlsFailed('the server gave an answer to the request for TLS that is not allowed');
}

/** Settles once, on an error, on the end, or by `settle`, and removes its listeners. */
function settler(socket: Socket, fail: (error: Error) => void): (then: () => void) => void {
  const onError = (error: Error) => settle(() => fail(error));
  const onClose = () => settle(() => fail(new Error('the connection was closed')));
  const settle = (then: () => void) => {
    socket.off('error', onError);
    socket.off('close', onClose);
    socket.off('end', onClose);
    then();
  };
  socket.once('error', onError);
  socket.once('close', onClose);
  socket.once('end', onClose);
  return settle;
}
