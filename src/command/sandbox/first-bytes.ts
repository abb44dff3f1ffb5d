import type { Socket } from 'node:net';
import { errorResponse, STARTUP } from '../../postgres/protocol/messages.ts';

/** A client's first bytes: PostgreSQL's protocol, another one, or too few to know. */
export type FirstBytes = 'postgres' | 'other' | 'undecided';

// A start-up packet: its length, a code, and for protocol 3 the name of the first parameter.
const CODE_AT = 4;
const NAME_AT = 8;
const LONGEST_STARTUP = 10_000;
const PROTOCOL_3 = STARTUP.version3 >>> 16;

/** Requests for encryption: the client waits for one byte, and sends its start-up packet then. */
const ENCRYPTION_REQUESTS: readonly number[] = [STARTUP.ssl, STARTUP.gssapi];
const ENCRYPTION_REQUEST_BYTES = 8;

/** Recognises the protocol of PostgreSQL, in clear or in TLS without a request before it, by what a client sends first. */
export function readFirstBytes(bytes: Buffer): FirstBytes {
  if (bytes.length === 0) return 'undecided';
  if (bytes[0] === HANDSHAKE_RECORD) return readClientHello(bytes);
  // The length of a start-up packet fits into two bytes.
  if (bytes.subarray(0, 2).some((byte) => byte !== 0)) return 'other';
  if (bytes.length < CODE_AT) return 'undecided';
  const length = bytes.readUInt32BE(0);
  if (length < NAME_AT || length > LONGEST_STARTUP) return 'other';
  if (bytes.length < NAME_AT) return 'undecided';
  const code = bytes.readUInt32BE(CODE_AT);
  if (code === STARTUP.cancel || ENCRYPTION_REQUESTS.includes(code)) return 'postgres';
  if (code >>> 16 !== PROTOCOL_3) return 'other';
  if (bytes.length === NAME_AT) return 'undecided';
  // Another protocol may have such a length and code (Kafka does), but not the name of a parameter behind it.
  return /[a-z_]/i.test(String.fromCharCode(bytes[NAME_AT] ?? 0)) ? 'postgres' : 'other';
}

const HANDSHAKE_RECORD = 22;
const CLIENT_HELLO = 1;
const RECORD_HEADER = 5;
const MESSAGE_HEADER = 4;
const VERSION_AND_RANDOM = 34;
const ALPN_EXTENSION = 16;
const POSTGRES_ALPN = 'postgresql';

/** Looks for PostgreSQL's protocol among those that the first message of TLS offers. It may lie in several records. */
function readClientHello(bytes: Buffer): FirstBytes {
  const { message, ended } = handshakeOf(bytes);
  if (message === undefined) return 'other';
  if (message.length > 0 && message[0] !== CLIENT_HELLO) return 'other';
  const length = message.length < MESSAGE_HEADER ? undefined : message.readUIntBE(1, 3);
  if (length === undefined || message.length < MESSAGE_HEADER + length) return ended ? 'other' : 'undecided';
  const offered = offeredProtocols(message.subarray(MESSAGE_HEADER, MESSAGE_HEADER + length));
  return offered.includes(POSTGRES_ALPN) ? 'postgres' : 'other';
}

/** Joins what the records of a handshake hold. `ended`: another kind of record follows; no message: these are no records of TLS. */
function handshakeOf(bytes: Buffer): { message: Buffer | undefined; ended: boolean } {
  const parts: Buffer[] = [];
  let at = 0;
  while (at < bytes.length) {
    const isTls = bytes[at + 1] === undefined || bytes[at + 1] === 3;
    if (!isTls) return { message: undefined, ended: true };
    if (bytes[at] !== HANDSHAKE_RECORD) return { message: Buffer.concat(parts), ended: true };
    if (bytes.length < at + RECORD_HEADER) break;
    const end = at + RECORD_HEADER + bytes.readUInt16BE(at + 3);
    parts.push(bytes.subarray(at + RECORD_HEADER, end));
    at = end;
  }
  return { message: Buffer.concat(parts), ended: false };
}

/** Reads the ALPN extension of a ClientHello; a malformed one offers nothing, and no server accepts it. */
function offeredProtocols(hello: Buffer): string[] {
  try {
    let at = VERSION_AND_RANDOM;
    at += 1 + hello.readUInt8(at); // The session's id,
    at += 2 + hello.readUInt16BE(at); // the ciphers,
    at += 1 + hello.readUInt8(at); // and ways to compress.
    const end = at + 2 + hello.readUInt16BE(at);
    at += 2;
    while (at < end) {
      const body = hello.subarray(at + 4, at + 4 + hello.readUInt16BE(at + 2));
      if (hello.readUInt16BE(at) === ALPN_EXTENSION) return namesIn(body);
      at += 4 + body.length;
    }
    return [];
  } catch (error) {
    if (error instanceof RangeError) return [];
    throw error;
  }
}

function namesIn(list: Buffer): string[] {
  const names: string[] = [];
  for (let at = 2; at < list.length; at += 1 + list.readUInt8(at))
    names.push(list.toString('latin1', at + 1, at + 1 + list.readUInt8(at)));
  return names;
}

/** A client that waits for the server's first word is not kept waiting for longer. */
const WAIT_MS = 100;
const REFUSED_CONNECTION = '08004';
const NOT_ENCRYPTED = 'N';

/**
 * Closes a connection that the sandbox does not allow: a client of PostgreSQL gets an error that says why, any other one a reset.
 * @param onPostgres is called if it is a client of PostgreSQL.
 */
export function closeWithWords(
  socket: Socket,
  { host, port }: { readonly host: string; readonly port: number },
  onPostgres: () => void,
): void {
  let held = Buffer.alloc(0);
  const timer = setTimeout(() => socket.resetAndDestroy(), WAIT_MS);
  socket.on('close', () => clearTimeout(timer));
  socket.on('end', () => socket.destroy());
  socket.on('data', (chunk) => {
    held = Buffer.concat([held, chunk]);
    if (isEncryptionRequest(held)) {
      held = held.subarray(ENCRYPTION_REQUEST_BYTES);
      socket.write(NOT_ENCRYPTED);
      timer.refresh();
    }
    const found = readFirstBytes(held);
    if (found === 'undecided') return;
    if (found === 'other') {
      socket.resetAndDestroy();
      return;
    }
    onPostgres();
    socket.end(
      errorResponse({
        severity: 'FATAL',
        sqlstate: REFUSED_CONNECTION,
        message: `the sandbox of this rehearsal does not let the command connect to ${host}:${port}`,
        hint: 'The report of safemigrate says what to do.',
      }),
    );
  });
}

function isEncryptionRequest(bytes: Buffer): boolean {
  return bytes.length === ENCRYPTION_REQUEST_BYTES && ENCRYPTION_REQUESTS.includes(bytes.readUInt32BE(4));
}
