import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import {
  encodeMessage,
  errorFields,
  payloadOf,
  query,
  STARTUP,
} from '../../src/postgres/protocol/messages.ts';
import { logIn, type Upstream } from '../../src/proxy/upstream.ts';

const HEADER_BYTES = 5;

/** A client of the bare protocol: what it gets is compared byte by byte. */
export class RawClient {
  readonly upstream: Upstream;
  /** Of a row that has not come whole. */
  #partial: Buffer = Buffer.alloc(0);

  private constructor(upstream: Upstream) {
    this.upstream = upstream;
  }

  static async connect(
    url: string,
    parameters: Record<string, string> = {},
    version: number = STARTUP.version3,
  ): Promise<RawClient> {
    const settings = parseSettings(url, readEnvironment({}, '/'));
    return new RawClient(
      await logIn(
        settings,
        Object.entries({ client_encoding: 'UTF8', ...parameters }),
        new AbortController().signal,
        version,
      ),
    );
  }

  send(...frames: Buffer[]): void {
    this.upstream.socket.write(Buffer.concat(frames));
  }

  /** Everything up to and with the given message, in words that can be compared. */
  async until(type: string, count = 1): Promise<string[]> {
    const told: string[] = [];
    for (let seen = 0; seen < count; ) {
      const piece = await this.upstream.reader.next();
      if (!piece) {
        told.push('(closed)');
        return told;
      }
      if (piece.kind === 'slice') told.push(...this.#rows(piece.bytes));
      else {
        told.push(describe(piece.bytes));
        if (String.fromCharCode(piece.type) === type) seen++;
      }
    }
    return told;
  }

  /** Slices end anywhere. */
  #rows(slice: Buffer): string[] {
    const told: string[] = [];
    let rest = Buffer.concat([this.#partial, slice]);
    while (rest.length >= HEADER_BYTES && rest.length > rest.readUInt32BE(1)) {
      const bytes = 1 + rest.readUInt32BE(1);
      told.push(describe(rest.subarray(0, bytes)));
      rest = rest.subarray(bytes);
    }
    this.#partial = rest;
    return told;
  }

  async query(text: string): Promise<string[]> {
    this.send(query(text));
    return await this.until('Z');
  }

  async close(): Promise<void> {
    const { socket } = this.upstream;
    const closed = socket.closed ? undefined : new Promise((resolve) => socket.once('close', resolve));
    socket.end(encodeMessage('X'.charCodeAt(0)));
    await closed;
  }
}

const TABLE_OID_AND_COLUMN = 6;

function describe(frame: Buffer): string {
  const type = String.fromCharCode(frame[0] ?? 0);
  if (type === 'E' || type === 'N')
    return `${type} ${[...errorFields(frame)].map(([letter, text]) => `${letter}=${text}`).join(' | ')}`;
  if (type === 'T') return `T ${withoutTables(payloadOf(frame))}`;
  return `${type} ${JSON.stringify(payloadOf(frame).toString('latin1'))}`;
}

/** OIDs of tables differ from database to database. */
function withoutTables(payload: Buffer): string {
  const copy = Buffer.from(payload);
  let at = 2;
  while (at < copy.length) {
    at = copy.indexOf(0, at) + 1;
    copy.fill(0, at, at + TABLE_OID_AND_COLUMN);
    at += 18;
  }
  return JSON.stringify(copy.toString('latin1'));
}
