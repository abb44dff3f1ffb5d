import type { Socket } from 'node:net';
import type { PieceReader } from '../postgres/protocol/frame-reader.ts';
import { ProtocolError, StartupSplitter } from '../postgres/protocol/frames.ts';
import {
  AUTHENTICATION,
  authentication,
  CLIENT,
  encodeMessage,
  errorResponse,
  int32,
  type PostgresError,
  payloadOf,
  readCString,
  SERVER,
  STARTUP,
} from '../postgres/protocol/messages.ts';
import {
  SCRAM,
  SCRAM_PLUS,
  ScramError,
  ScramServer,
  type ScramVerifier,
} from '../postgres/protocol/scram.ts';

/** A client's first packet: it opens a session, cancels what another one runs, or leaves because it was not given TLS. */
export type Arrival =
  | { readonly kind: 'session'; readonly startup: Startup; readonly rest: Buffer }
  | { readonly kind: 'cancel'; readonly key: Buffer }
  | { readonly kind: 'without TLS' }
  /** It left after the handshake, or ended that. */
  | { readonly kind: 'without trust' };

/** A start-up packet of protocol 3. */
export interface Startup {
  readonly user: string;
  readonly database: string;
  /** In the client's order, `user` and `database` included. */
  readonly parameters: readonly (readonly [name: string, value: string])[];
  /** 3.2 if the client asks for that or a later one and it is spoken, else 3.0. */
  readonly version: number;
  /** Sent before authentication if the client asks for a protocol version or options that are not supported. */
  readonly negotiation: Buffer | undefined;
}

/** The client gets this error, and its connection is closed. */
export class Refusal extends Error {
  readonly response: Buffer;

  constructor(error: PostgresError) {
    super(error.message);
    this.response = errorResponse({ severity: 'FATAL', ...error });
  }
}

const NO = Buffer.from('N');
const YES = Buffer.from('S');
/** The first byte of a client that speaks TLS without a request before it (`sslnegotiation=direct`). */
const TLS_HANDSHAKE = 22;
const PROTOCOL_VIOLATION = '08P01';
const FEATURE_NOT_SUPPORTED = '0A000';
const INVALID_AUTHORIZATION = '28000';
const INVALID_PASSWORD = '28P01';

/**
 * Reads the first packet of a new client.
 * @param newest version of the protocol that is spoken.
 * @param encrypt answers requests for TLS; without it they are answered "no", since the connection stays on this machine.
 * @throws Refusal, ProtocolError; resolves with undefined if the client goes away.
 */
export async function receiveStartup(
  client: Socket,
  newest: number,
  encrypt?: (client: Socket) => Promise<Socket | undefined>,
): Promise<Arrival | undefined> {
  const splitter = new StartupSplitter();
  let askedForTls = false;
  for await (const chunk of chunksOf(client)) {
    if (encrypt && !askedForTls && chunk[0] === TLS_HANDSHAKE) {
      client.unshift(chunk);
      return receiveEncrypted(client, newest, encrypt);
    }
    let found = splitter.push(chunk);
    while (found) {
      const code = found.packet.readUInt32BE(0);
      if (code === STARTUP.cancel) return { kind: 'cancel', key: found.packet.subarray(4) };
      if (code !== STARTUP.ssl && code !== STARTUP.gssapi)
        return { kind: 'session', startup: readStartup(found.packet, newest), rest: found.rest };
      // Plain bytes behind the request, before our answer, could have been injected: they must not be trusted.
      if (found.rest.length > 0) throw new ProtocolError('Data came behind a request for encryption.');
      if (code === STARTUP.ssl && encrypt) {
        client.write(YES);
        return receiveEncrypted(client, newest, encrypt);
      }
      askedForTls ||= code === STARTUP.ssl;
      client.write(NO);
      found = splitter.push(found.rest);
    }
  }
  return askedForTls ? { kind: 'without TLS' } : undefined;
}

async function receiveEncrypted(
  client: Socket,
  newest: number,
  encrypt: (client: Socket) => Promise<Socket | undefined>,
): Promise<Arrival> {
  const encrypted = await encrypt(client);
  const arrival = encrypted && (await receiveStartup(encrypted, newest));
  return arrival ?? { kind: 'without trust' };
}

/** Yields the chunks of a socket, which stays open and paused when the loop is left. */
async function* chunksOf(socket: Socket): AsyncGenerator<Buffer> {
  for (;;) {
    const chunk = await new Promise<Buffer | undefined>((resolve) => {
      const settle = (value?: Buffer) => {
        socket.pause();
        socket.off('data', settle).off('end', onEnd).off('close', onEnd);
        resolve(value);
      };
      const onEnd = () => settle();
      socket.on('data', settle).on('end', onEnd).on('close', onEnd);
      if (socket.destroyed || socket.readableEnded) settle();
      else socket.resume();
    });
    if (chunk === undefined) return;
    yield chunk;
  }
}

function readStartup(packet: Buffer, newest: number): Startup {
  const version = packet.readUInt32BE(0);
  if (version >>> 16 !== 3)
    throw new Refusal({
      sqlstate: FEATURE_NOT_SUPPORTED,
      message: `The protocol version ${version >>> 16}.${version & 0xffff} is not supported; 3.0 and 3.2 are.`,
    });
  const parameters: [string, string][] = [];
  for (let at = 4; at < packet.length && packet[at] !== 0; ) {
    const name = readCString(packet, at);
    const value = readCString(packet, name.next);
    parameters.push([name.text, value.text]);
    at = value.next;
  }
  const given = new Map(parameters);
  const user = given.get('user');
  if (!user)
    throw new Refusal({ sqlstate: INVALID_AUTHORIZATION, message: 'The start-up packet names no user.' });
  refuseReplication(given.get('replication'));
  const extensions = parameters.filter(([name]) => name.startsWith('_pq_.'));
  return {
    user,
    database: given.get('database') || user,
    parameters: parameters.filter(([name]) => !name.startsWith('_pq_.')),
    version: version >= STARTUP.version32 ? newest : STARTUP.version3,
    negotiation:
      version <= newest && extensions.length === 0
        ? undefined
        : negotiation(
            Math.min(version, newest),
            extensions.map(([name]) => name),
          ),
  };
}

function refuseReplication(value: string | undefined): void {
  if (value === undefined || ['false', 'off', 'no', '0', 'f', 'n'].includes(value.toLowerCase())) return;
  throw new Refusal({
    sqlstate: FEATURE_NOT_SUPPORTED,
    message: 'A rehearsal offers no replication connections.',
    detail: 'Replication concerns the whole server, and would leave the clone.',
  });
}

/** NegotiateProtocolVersion: this version, and none of the extensions. */
function negotiation(version: number, extensions: readonly string[]): Buffer {
  return encodeMessage(
    SERVER.negotiateProtocolVersion,
    int32(version),
    int32(extensions.length),
    ...extensions.map((name) => `${name}\0`),
  );
}

/**
 * Authenticates a client by the run's secret with SCRAM, which every driver supports and which hides the secret from
 * anybody who reads the traffic. AuthenticationOk is not sent yet. @throws Refusal, ProtocolError
 * @param certificateHash of an encrypted connection, to which the client may bind its login.
 */
export async function authenticate(
  socket: Socket,
  reader: PieceReader,
  { user }: Startup,
  verifier: ScramVerifier,
  certificateHash?: Buffer,
): Promise<void> {
  const offered = certificateHash ? [SCRAM_PLUS, SCRAM] : [SCRAM];
  socket.write(authentication(AUTHENTICATION.sasl, `${offered.join('\0')}\0\0`));
  try {
    const initial = await password(reader);
    const { text: mechanism, next } = readCString(initial, 0);
    const server = new ScramServer(verifier, mechanism === SCRAM_PLUS ? certificateHash : undefined);
    if (!offered.includes(mechanism))
      throw new ScramError(`the client chose ${mechanism}, which was not offered`);
    const challenge = server.challenge(initial.toString('utf8', next + 4));
    socket.write(authentication(AUTHENTICATION.saslContinue, challenge));
    const final = server.check((await password(reader)).toString());
    if (final === undefined)
      throw new Refusal({
        sqlstate: INVALID_PASSWORD,
        message: `password authentication failed for user "${user}"`,
        ...(certificateHash ? {} : { detail: 'Only the command that safemigrate started may enter here.' }),
      });
    socket.write(authentication(AUTHENTICATION.saslFinal, final));
  } catch (error) {
    if (error instanceof ScramError)
      throw new Refusal({
        sqlstate: PROTOCOL_VIOLATION,
        message: `Authentication failed: ${error.message}.`,
      });
    throw error;
  }
}

/** Asks a client for its password in clear. @throws ProtocolError if it does not answer. */
export async function askPassword(socket: Socket, reader: PieceReader): Promise<string> {
  socket.write(authentication(AUTHENTICATION.cleartextPassword));
  return readCString(await password(reader), 0).text;
}

async function password(reader: PieceReader): Promise<Buffer> {
  const piece = await reader.next();
  if (piece?.kind !== 'frame' || piece.type !== CLIENT.password)
    throw new ProtocolError('The client did not answer the request for authentication.');
  return payloadOf(piece.bytes);
}
