import { createHash } from 'node:crypto';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { signatureAlgorithmHashFromCertificate } from 'pg/lib/crypto/cert-signatures.js';
import type { ConnectionSettings, HostAndPort } from '../postgres/connection/connection-settings.ts';
import { dial, type Link } from '../postgres/connection/dial.ts';
import { openLink } from '../postgres/connection/link.ts';
import { PieceReader } from '../postgres/protocol/frame-reader.ts';
import { FROM_SERVER, FrameSplitter } from '../postgres/protocol/frames.ts';
import {
  AUTHENTICATION,
  CLIENT,
  encodeMessage,
  errorFields,
  int32,
  parameterStatus,
  payloadOf,
  SERVER,
  STARTUP,
} from '../postgres/protocol/messages.ts';
import { SCRAM, SCRAM_PLUS, ScramClient } from '../postgres/protocol/scram.ts';

/** A connection to the server that is logged in; its next message is one that the client waits for. */
export interface Upstream {
  readonly socket: Socket;
  readonly reader: PieceReader;
  /** What the server said between AuthenticationOk and the first ReadyForQuery, this included, byte by byte. */
  readonly greeting: readonly Buffer[];
  readonly parameters: ReadonlyMap<string, string>;
  readonly pid: number;
  /** The payload of BackendKeyData: what a CancelRequest must repeat. */
  readonly key: Buffer;
  /** Asks the server to cancel what this connection runs. Never rejects: the server does not answer either. */
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

/** The login cannot go on, for a reason that libpq has as well. */
class LoginFailed extends Error {
  readonly code = '28000';
  readonly severity = 'FATAL';
}

/**
 * Logs in with the route's credentials, handing on the client's own start-up parameters but for user and database.
 * @throws SafemigrateError (dial's); its `cause` is a ServerRefusal where the server said no.
 */
export async function logIn(
  settings: ConnectionSettings,
  parameters: readonly (readonly [string, string])[],
  signal: AbortSignal,
): Promise<Upstream> {
  const own = new Map([
    ['user', settings.user],
    ['database', settings.database],
  ]);
  const others = parameters.filter(([name]) => !own.has(name));
  const packet = startupPacket([...own, ...others]);
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

function startupPacket(parameters: readonly (readonly [string, string])[]): Buffer {
  const body = Buffer.concat([
    int32(STARTUP.version3),
    Buffer.from(parameters.map(([name, value]) => `${name}\0${value}\0`).join('')),
    Buffer.from([0]),
  ]);
  return Buffer.concat([int32(body.length + 4), body]);
}

/** Answers the server's requests until AuthenticationOk. */
async function authenticate(link: Link, reader: PieceReader, binding: string): Promise<void> {
  const { socket, user, password } = link;
  const needed = () => {
    if (password === undefined) throw new LoginFailed('the server asks for a password, and none is known');
    return password;
  };
  let scram: ScramClient | undefined;
  for (;;) {
    const frame = await answer(reader);
    if (frame[0] !== SERVER.authentication) continue;
    const payload = payloadOf(frame);
    const data = payload.subarray(4);
    switch (payload.readUInt32BE(0)) {
      case AUTHENTICATION.ok:
        if (scram && !scram.verified) throw new LoginFailed('the server ended the login without its proof');
        if (binding === 'require' && scram?.mechanism !== SCRAM_PLUS) throw unbound();
        return;
      case AUTHENTICATION.cleartextPassword:
        socket.write(encodeMessage(CLIENT.password, `${needed()}\0`));
        break;
      case AUTHENTICATION.md5Password:
        socket.write(encodeMessage(CLIENT.password, `md5${md5(md5(needed() + user), data)}\0`));
        break;
      case AUTHENTICATION.sasl: {
        const offered = data.toString('latin1').split('\0');
        const hash =
          offered.includes(SCRAM_PLUS) && binding !== 'disable' ? certificateHash(socket) : undefined;
        if (binding === 'require' && !hash) throw unbound();
        if (!hash && !offered.includes(SCRAM))
          throw new LoginFailed('the server offers no SASL mechanism that is known here');
        scram = new ScramClient(needed(), hash);
        const first = Buffer.from(scram.first);
        socket.write(encodeMessage(CLIENT.password, `${scram.mechanism}\0`, int32(first.length), first));
        break;
      }
      case AUTHENTICATION.saslContinue:
        socket.write(encodeMessage(CLIENT.password, (await scram?.proof(data.toString())) ?? ''));
        break;
      case AUTHENTICATION.saslFinal:
        scram?.verify(data.toString());
        break;
      default:
        throw new LoginFailed(
          'the server asks for GSSAPI, SSPI or another way to log in that is not supported',
        );
    }
  }
}

function unbound(): LoginFailed {
  return new LoginFailed(
    'channel_binding=require asks for a login that is bound to TLS, which the server does not offer',
  );
}

function isEncrypted(socket: Socket): socket is TLSSocket {
  return 'encrypted' in socket;
}

/** undefined without TLS, or where the certificate's signature has no hash that both sides would choose. */
function certificateHash(socket: Socket): Buffer | undefined {
  const certificate = isEncrypted(socket) ? socket.getPeerCertificate().raw : undefined;
  if (!certificate) return undefined;
  try {
    const signed = signatureAlgorithmHashFromCertificate(certificate);
    // RFC 5929: the hash of the signature, but nothing weaker than SHA-256.
    const hash =
      signed === 'MD5' || signed === 'SHA-1' ? 'sha256' : signed.toLowerCase().replace('sha-', 'sha');
    return createHash(hash).update(certificate).digest();
  } catch {
    return undefined;
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

/** The server closes the connection when it has signalled the backend. */
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
    socket.end(Buffer.concat([int32(key.length + 8), int32(STARTUP.cancel), key]));
    socket.resume();
    await closed;
  } catch {
    // A server that cannot be reached runs nothing that could be cancelled from here.
  }
}
