import { createHash } from 'node:crypto';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { signatureAlgorithmHashFromCertificate } from 'pg/lib/crypto/cert-signatures.js';
import { continueSession, finalizeSession, type SaslSession, startSession } from 'pg/lib/crypto/sasl.js';
import { serialize } from 'pg-protocol';
import type { ConnectionSettings, HostAndPort } from '../postgres/connection/connection-settings.ts';
import { dial, type Link } from '../postgres/connection/dial.ts';
import { openLink } from '../postgres/connection/link.ts';
import { PieceReader } from '../postgres/protocol/frame-reader.ts';
import { FROM_SERVER, FrameSplitter } from '../postgres/protocol/frames.ts';
import {
  AUTHENTICATION,
  errorFields,
  int32,
  parameterStatus,
  payloadOf,
  SERVER,
  STARTUP,
} from '../postgres/protocol/messages.ts';
import { SCRAM, SCRAM_PLUS } from '../postgres/protocol/scram.ts';

/** The server decides how expensive its logins are, as for libpq. */
const ANY_ITERATIONS = 0;
/** Signature hashes that Web Crypto computes, or that RFC 5929 replaces by SHA-256. */
const BINDABLE_HASHES: ReadonlySet<string> = new Set(['MD5', 'SHA-1', 'SHA-256', 'SHA-384', 'SHA-512']);

/** A connection to the server that is logged in; its next message is for the client. */
export interface Upstream {
  readonly socket: Socket;
  readonly reader: PieceReader;
  /** The server's messages behind AuthenticationOk, up to and with the first ReadyForQuery, unchanged. */
  readonly greeting: readonly Buffer[];
  readonly parameters: ReadonlyMap<string, string>;
  readonly pid: number;
  /** The payload of BackendKeyData, which a CancelRequest must repeat. */
  readonly key: Buffer;
  /** Asks the server to cancel what this connection runs. Never rejects: the server sends no answer either. */
  cancel(): Promise<void>;
}

/** The server's own ErrorResponse to a login. */
export class ServerRefusal extends Error {
  readonly response: Buffer;
  readonly code: string;
  readonly severity: string;

  constructor(response: Buffer) {
    const fields = errorFields(response);
    super(fields.get('M') ?? 'the server refused the login');
    this.response = response;
    this.code = fields.get('C') ?? '';
    this.severity = fields.get('V') ?? 'FATAL';
  }
}

/** The login cannot go on, for a reason for which libpq fails as well. */
class LoginFailed extends Error {
  readonly code = '28000';
  readonly severity = 'FATAL';
}

/** The server asks for a password. */
class PasswordMissing extends LoginFailed {}

const INVALID_PASSWORD = '28P01';

/** Tells whether a login failed because the server asks for a password that is not known, or is another one. */
export function isAboutPassword(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { cause } = error;
  return (
    cause instanceof PasswordMissing || (cause instanceof ServerRefusal && cause.code === INVALID_PASSWORD)
  );
}

/**
 * Logs in with the route's credentials, and the client's own start-up parameters except user and database.
 * @param version of the protocol; an older server speaks 3.0 instead, which differs in the length of its keys alone.
 * @throws SafemigrateError (dial's); its `cause` is a ServerRefusal if the server refused the login.
 */
export async function logIn(
  settings: ConnectionSettings,
  parameters: readonly (readonly [string, string])[],
  signal: AbortSignal,
  version: number = STARTUP.version3,
): Promise<Upstream> {
  const own = new Map([
    ['user', settings.user],
    ['database', settings.database],
  ]);
  const others = parameters.filter(([name]) => !own.has(name));
  const packet = startupPacket(version, [...own, ...others]);
  return await dial(
    settings,
    async (link) => {
      const reader = new PieceReader(link.socket, new FrameSplitter(FROM_SERVER));
      link.socket.write(packet);
      await authenticate(link, reader, settings.parameters.channel_binding ?? 'prefer');
      return await greet(link, reader, settings);
    },
    signal,
  );
}

function startupPacket(version: number, parameters: readonly (readonly [string, string])[]): Buffer {
  const body = Buffer.concat([
    int32(version),
    Buffer.from(parameters.map(([name, value]) => `${name}\0${value}\0`).join('')),
    Buffer.from([0]),
  ]);
  return Buffer.concat([int32(body.length + 4), body]);
}

/** Answers the server's authentication requests until AuthenticationOk. @throws LoginFailed, ServerRefusal, pg's errors */
async function authenticate(link: Link, reader: PieceReader, binding: string): Promise<void> {
  const { socket, user } = link;
  let sasl: SaslLogin | undefined;
  for (;;) {
    const frame = await answer(reader);
    if (frame[0] !== SERVER.authentication) continue;
    const payload = payloadOf(frame);
    const data = payload.subarray(4);
    switch (payload.readUInt32BE(0)) {
      case AUTHENTICATION.ok:
        if (sasl && !sasl.verified) throw new LoginFailed('the server ended the login without its proof');
        if (binding === 'require' && sasl?.session.mechanism !== SCRAM_PLUS) throw unbound();
        return;
      case AUTHENTICATION.cleartextPassword:
        socket.write(serialize.password(passwordOf(link)));
        break;
      case AUTHENTICATION.md5Password:
        socket.write(serialize.password(`md5${md5(md5(passwordOf(link) + user), data)}`));
        break;
      case AUTHENTICATION.sasl:
        sasl = startSasl(socket, data, binding);
        socket.write(serialize.sendSASLInitialResponseMessage(sasl.session.mechanism, sasl.session.response));
        break;
      case AUTHENTICATION.saslContinue:
        if (!sasl) throw outOfOrder();
        await continueSession(sasl.session, passwordOf(link), data.toString(), sasl.stream);
        socket.write(serialize.sendSCRAMClientFinalMessage(sasl.session.response));
        break;
      case AUTHENTICATION.saslFinal:
        if (!sasl) throw outOfOrder();
        finalizeSession(sasl.session, data.toString());
        sasl.verified = true;
        break;
      default:
        throw new LoginFailed(
          'the server asks for GSSAPI, SSPI or another authentication that is not supported',
        );
    }
  }
}

interface SaslLogin {
  readonly session: SaslSession;
  /** The TLS connection if the login is bound to it. */
  readonly stream: TLSSocket | undefined;
  /** The server has proved that it knows the password. */
  verified: boolean;
}

/** Chooses SCRAM-SHA-256-PLUS if it is offered and the connection can be bound, else SCRAM-SHA-256. */
function startSasl(socket: Socket, data: Buffer, binding: string): SaslLogin {
  const offered = data.toString('latin1').split('\0');
  const stream =
    offered.includes(SCRAM_PLUS) && binding !== 'disable' && canBind(socket) ? socket : undefined;
  if (binding === 'require' && !stream) throw unbound();
  if (!stream && !offered.includes(SCRAM))
    throw new LoginFailed('the server offers no SASL mechanism that is known here');
  return { session: startSession(offered, stream, ANY_ITERATIONS), stream, verified: false };
}

function passwordOf({ password }: Link): string {
  if (!password) throw new PasswordMissing('the server asks for a password, and none is known');
  return password;
}

function outOfOrder(): LoginFailed {
  return new LoginFailed('the server sent its SASL messages out of order');
}

function unbound(): LoginFailed {
  return new LoginFailed(
    'channel_binding=require asks for a login that is bound to TLS, which the server does not offer',
  );
}

/** Tells whether the login can be bound to this connection (RFC 5929): TLS, and a certificate whose hash pg can compute. */
function canBind(socket: Socket): socket is TLSSocket {
  if (!('getPeerCertificate' in socket)) return false;
  const certificate = (socket as TLSSocket).getPeerCertificate().raw;
  if (!certificate) return false;
  try {
    return BINDABLE_HASHES.has(signatureAlgorithmHashFromCertificate(certificate));
  } catch {
    return false;
  }
}

function md5(text: string, salt?: Buffer): string {
  const hash = createHash('md5').update(text);
  return (salt ? hash.update(salt) : hash).digest('hex');
}

async function greet(link: Link, reader: PieceReader, settings: ConnectionSettings): Promise<Upstream> {
  const greeting: Buffer[] = [];
  const parameters = new Map<string, string>();
  let key: Buffer = Buffer.alloc(8);
  for (;;) {
    const frame = await answer(reader);
    greeting.push(frame);
    if (frame[0] === SERVER.parameterStatus) {
      const { name, value } = parameterStatus(frame);
      parameters.set(name, value);
    }
    if (frame[0] === SERVER.backendKeyData) key = Buffer.from(payloadOf(frame));
    if (frame[0] === SERVER.readyForQuery) break;
  }
  link.accept(parameters);
  return {
    socket: link.socket,
    reader,
    greeting,
    parameters,
    pid: key.readUInt32BE(0),
    key,
    cancel: () => cancel(settings, link.address, link.encrypted, key),
  };
}

async function answer(reader: PieceReader): Promise<Buffer> {
  const piece = await reader.next();
  if (!piece) throw new Error('the server closed the connection during the login');
  if (piece.kind !== 'slice' && piece.type === SERVER.errorResponse) throw new ServerRefusal(piece.bytes);
  return piece.bytes;
}

/** Sends a CancelRequest. The server closes the connection when it has signalled the backend. */
async function cancel(
  settings: ConnectionSettings,
  address: HostAndPort,
  encrypted: boolean,
  key: Buffer,
): Promise<void> {
  try {
    const socket = await openLink(settings, address, encrypted ? 'tls' : 'plain');
    socket.on('error', () => {});
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    const request = Buffer.concat([int32(STARTUP.cancel), key]);
    socket.end(Buffer.concat([int32(request.length + 4), request]));
    socket.resume();
    await closed;
  } catch {
    // A server that cannot be reached runs nothing that could be cancelled from here.
  }
}
