/**
 * The few messages of the protocol that are written or read here, one small function each. Client messages with text of
 * our own are pg-protocol's; those that carry the client's bytes are built here, so that the bytes stay as they are.
 */
import { serialize } from 'pg-protocol';

/** Type bytes of messages from the client. */
export const CLIENT = {
  bind: 0x42, // B
  close: 0x43, // C
  copyDone: 0x63, // c
  copyFail: 0x66, // f
  describe: 0x44, // D
  execute: 0x45, // E
  flush: 0x48, // H
  functionCall: 0x46, // F
  parse: 0x50, // P
  password: 0x70, // p
  query: 0x51, // Q
  sync: 0x53, // S
  terminate: 0x58, // X
} as const;

/** Type bytes of messages from the server. */
export const SERVER = {
  authentication: 0x52, // R
  backendKeyData: 0x4b, // K
  bindComplete: 0x32, // 2
  closeComplete: 0x33, // 3
  commandComplete: 0x43, // C
  copyBothResponse: 0x57, // W
  copyInResponse: 0x47, // G
  copyOutResponse: 0x48, // H
  emptyQuery: 0x49, // I
  errorResponse: 0x45, // E
  functionCallResponse: 0x56, // V
  negotiateProtocolVersion: 0x76, // v
  noData: 0x6e, // n
  noticeResponse: 0x4e, // N
  notification: 0x41, // A
  parameterStatus: 0x53, // S
  parseComplete: 0x31, // 1
  portalSuspended: 0x73, // s
  readyForQuery: 0x5a, // Z
  rowDescription: 0x54, // T
} as const;

/** The supported `AuthenticationXXX` requests, by their number. */
export const AUTHENTICATION = {
  ok: 0,
  cleartextPassword: 3,
  md5Password: 5,
  sasl: 10,
  saslContinue: 11,
  saslFinal: 12,
} as const;

/** The second number of a start-up packet: a version, or a request in place of one. */
export const STARTUP = {
  version3: 0x0003_0000,
  /** From PostgreSQL 18 on. It differs in one thing: the key of a CancelRequest may be longer than four bytes. */
  version32: 0x0003_0002,
  cancel: 80_877_102,
  ssl: 80_877_103,
  gssapi: 80_877_104,
} as const;

const HEADER_BYTES = 5;

export function encodeMessage(type: number, ...parts: readonly (Buffer | string)[]): Buffer {
  const payload = parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part));
  const header = Buffer.alloc(HEADER_BYTES);
  header[0] = type;
  header.writeUInt32BE(
    payload.reduce((bytes, part) => bytes + part.length, 4),
    1,
  );
  return Buffer.concat([header, ...payload]);
}

export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Builds a Query; the text may be a range of the client's own bytes. */
export function query(text: Buffer | string): Buffer {
  return encodeMessage(CLIENT.query, text, '\0');
}

export const SYNC = serialize.sync();
export const FLUSH = serialize.flush();

export function authentication(request: number, ...parts: readonly (Buffer | string)[]): Buffer {
  return encodeMessage(SERVER.authentication, int32(request), ...parts);
}

export function payloadOf(frame: Buffer): Buffer {
  return frame.subarray(HEADER_BYTES);
}

/** Returns the string that starts at the offset, and the offset of the next field. */
export function readCString(bytes: Buffer, from: number): { text: string; next: number } {
  const end = bytes.indexOf(0, from);
  if (end === -1) return { text: bytes.toString('utf8', from), next: bytes.length };
  return { text: bytes.toString('utf8', from, end), next: end + 1 };
}

/** Builds one statement of the extended protocol, with its Sync: unlike a Query it keeps the client's unnamed statement. */
export function ownStatement(text: string): Buffer {
  const name = 'safemigrate';
  const close = serialize.close({ type: 'S', name });
  return Buffer.concat([
    // A failed earlier one may have left its name behind.
    close,
    serialize.parse({ name, text }),
    serialize.bind({ portal: name, statement: name }),
    serialize.execute({ portal: name }),
    close,
    SYNC,
  ]);
}

/** Returns the text of a Query, without the zero that ends it. */
export function queryText(frame: Buffer): Buffer {
  const payload = payloadOf(frame);
  return payload.subarray(0, zeroOf(payload, 0));
}

function zeroOf(bytes: Buffer, from: number): number {
  const at = bytes.indexOf(0, from);
  return at === -1 ? bytes.length : at;
}

export function parseMessage(frame: Buffer): { name: string; text: Buffer } {
  const payload = payloadOf(frame);
  const { text: name, next } = readCString(payload, 0);
  return { name, text: payload.subarray(next, zeroOf(payload, next)) };
}

/** Returns the same Parse with another text. */
export function withParseText(frame: Buffer, text: Buffer): Buffer {
  const payload = payloadOf(frame);
  const { text: name, next } = readCString(payload, 0);
  return encodeMessage(CLIENT.parse, name, '\0', text, '\0', payload.subarray(zeroOf(payload, next) + 1));
}

/** Returns the names that start a Bind; its head is enough. */
export function bindMessage(frame: Buffer): { portal: string; statement: string } {
  const payload = payloadOf(frame);
  const { text: portal, next } = readCString(payload, 0);
  return { portal, statement: readCString(payload, next).text };
}

/** Returns the OID of the function that a FunctionCall message calls. */
export function functionOf(frame: Buffer): number {
  return payloadOf(frame).readUInt32BE(0);
}

/** Reads an Execute; with a `limit` of rows it may suspend its portal, with 0 it never does. */
export function executeMessage(frame: Buffer): { portal: string; limit: number } {
  const payload = payloadOf(frame);
  const { text, next } = readCString(payload, 0);
  return { portal: text, limit: payload.readUInt32BE(next) };
}

export function closeMessage(frame: Buffer): { kind: 'statement' | 'portal'; name: string } {
  const payload = payloadOf(frame);
  return { kind: payload[0] === CLIENT.sync ? 'statement' : 'portal', name: readCString(payload, 1).text };
}

export function commandTag(frame: Buffer): string {
  return readCString(payloadOf(frame), 0).text;
}

/** Returns the number of rows that a command tag ends in, `INSERT 0 5`, `SELECT 3`; null if it has none. */
export function rowsOf(tag: string): number | null {
  const digits = /^(?:SELECT|INSERT 0|INSERT \d+|UPDATE|DELETE|MERGE|COPY|FETCH|MOVE) (\d+)$/.exec(tag)?.[1];
  return digits === undefined ? null : Number(digits);
}

/** Idle, in a transaction block, or in a failed one. */
export type TransactionStatus = 'I' | 'T' | 'E';

export function transactionStatus(frame: Buffer): TransactionStatus {
  const status = String.fromCharCode(payloadOf(frame)[0] ?? 0);
  return status === 'T' || status === 'E' ? status : 'I';
}

export function parameterStatus(frame: Buffer): { name: string; value: string } {
  const payload = payloadOf(frame);
  const { text: name, next } = readCString(payload, 0);
  return { name, value: readCString(payload, next).text };
}

export function parameterStatusMessage(name: string, value: string): Buffer {
  return encodeMessage(SERVER.parameterStatus, `${name}\0${value}\0`);
}

/** Returns the fields of an ErrorResponse or NoticeResponse by their letters: `C` is the SQLSTATE, `M` the message, … */
export function errorFields(frame: Buffer): Map<string, string> {
  const payload = payloadOf(frame);
  const fields = new Map<string, string>();
  for (let at = 0; at < payload.length && payload[at] !== 0; ) {
    const letter = String.fromCharCode(payload[at] ?? 0);
    const { text, next } = readCString(payload, at + 1);
    fields.set(letter, text);
    at = next;
  }
  return fields;
}

/** Moves the position of an error or notice: the server counts from the start of a part of the client's text. */
export function movePosition(frame: Buffer, characters: number): Buffer {
  if (characters === 0) return frame;
  const parts: Buffer[] = [];
  const payload = payloadOf(frame);
  let moved = false;
  let from = 0;
  while (from < payload.length && payload[from] !== 0) {
    const end = zeroOf(payload, from) + 1;
    if (payload[from] === POSITION) {
      const position = Number(payload.toString('latin1', from + 1, end - 1));
      parts.push(Buffer.from(`P${position + characters}\0`));
      moved = true;
    } else parts.push(payload.subarray(from, end));
    from = end;
  }
  return moved ? encodeMessage(frame[0] ?? 0, ...parts, '\0') : frame;
}

const POSITION = 'P'.charCodeAt(0);

/** Adds a hint to an error that has none. */
export function withHint(frame: Buffer, hint: string): Buffer {
  if (errorFields(frame).has('H')) return frame;
  return encodeMessage(frame[0] ?? 0, payloadOf(frame).subarray(0, -1), `H${hint}\0\0`);
}

/** The fields of an error that are set here. */
export interface PostgresError {
  readonly severity?: 'ERROR' | 'FATAL';
  readonly sqlstate: string;
  readonly message: string;
  readonly detail?: string;
  readonly hint?: string;
}

export function errorResponse(error: PostgresError): Buffer {
  const severity = error.severity ?? 'ERROR';
  const fields = [`S${severity}`, `V${severity}`, `C${error.sqlstate}`, `M${error.message}`];
  if (error.detail !== undefined) fields.push(`D${error.detail}`);
  if (error.hint !== undefined) fields.push(`H${error.hint}`);
  return encodeMessage(SERVER.errorResponse, `${fields.join('\0')}\0\0`);
}
