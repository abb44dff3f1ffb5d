/**
 * Cuts a stream of the protocol (version 3) into frames: a type byte, a length that counts itself, a payload.
 *
 * It collects only what must be decoded. Frames of the types that a direction *passes* (rows, copied data) go through as
 * slices of the chunks they came in, many frames or a part of one at a time. Every other type is delivered whole if it
 * fits the bound; a larger one is delivered as its head (the first bytes), and the rest follows as slices.
 * The pieces put together are the stream, byte for byte.
 */
export type Piece =
  | { readonly kind: 'frame'; readonly type: number; readonly bytes: Buffer }
  | { readonly kind: 'head'; readonly type: number; readonly length: number; readonly bytes: Buffer }
  | { readonly kind: 'slice'; readonly bytes: Buffer };

/** The stream is not one of the protocol; there is no way to find the next frame. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

/** A client begins with a TLS handshake, without asking for one (libpq's sslnegotiation=direct). */
export class DirectTls extends ProtocolError {}

export interface Direction {
  readonly name: string;
  /** 0: no such type; PASSED; or the largest frame, in bytes, that is delivered whole. */
  readonly bounds: Int32Array;
}

const HEADER_BYTES = 5;
const LENGTH_BYTES = 4;
const PASSED = -1;
const BOUND_BYTES = 64 * 1024;
/** The server's own limit of a message (MaxAllocSize). */
const LARGEST_LENGTH = 0x3fff_ffff;
/** The head of a frame beyond the bound: enough for the names that start a Bind. */
const HEAD_BYTES = HEADER_BYTES + 256;
/** Longer SQL text is not parsed: parsing takes a hundred times its size in memory. */
export const LARGEST_TEXT_BYTES = 2 * 1024 * 1024;
/** Longer SQL text is passed on unread. */
export const LARGEST_READ_BYTES = 64 * 1024 * 1024;

function direction(
  name: string,
  passed: string,
  whole: string,
  bounds: Record<string, number> = {},
): Direction {
  const table = new Int32Array(256);
  for (const type of passed) table[type.charCodeAt(0)] = PASSED;
  for (const type of whole) table[type.charCodeAt(0)] = bounds[type] ?? BOUND_BYTES;
  return { name, bounds: table };
}

export const FROM_CLIENT = direction('client', 'd', 'BCDEFHPQSXcfp', {
  P: LARGEST_READ_BYTES,
  Q: LARGEST_READ_BYTES,
});

export const FROM_SERVER = direction('server', 'Dd', '123ACEGHIKNRSTVWZnstcv', {
  E: LARGEST_TEXT_BYTES,
  N: LARGEST_TEXT_BYTES,
});

export class FrameSplitter {
  readonly #direction: Direction;
  /** Bytes of a piece that is not complete: a header, or a frame to be delivered whole. */
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** The held piece must have so many bytes before it can be decoded or delivered. */
  #needBytes = HEADER_BYTES;
  /** So many bytes of a frame are still to go through as slices. */
  #passingBytes = 0;

  constructor(direction: Direction) {
    this.#direction = direction;
  }

  /** Everything that came so far was whole frames, and has been delivered. */
  get atBoundary(): boolean {
    return this.#heldBytes === 0 && this.#passingBytes === 0;
  }

  /** Yields the pieces that the chunk completes, in order. @throws ProtocolError, after which it must not be used. */
  *push(chunk: Buffer): Generator<Piece, void, undefined> {
    let at = 0;
    let sliceFrom = 0;
    while (at < chunk.length) {
      if (this.#passingBytes > 0) {
        const passed = Math.min(this.#passingBytes, chunk.length - at);
        this.#passingBytes -= passed;
        at += passed;
        continue;
      }
      if (this.#heldBytes === 0) at = this.#skipPassed(chunk, at);
      if (at === chunk.length) break;
      if (this.#heldBytes === 0 && chunk.length - at >= HEADER_BYTES && this.#pass(chunk, at)) {
        at += HEADER_BYTES;
        continue;
      }
      if (at > sliceFrom) yield { kind: 'slice', bytes: chunk.subarray(sliceFrom, at) };
      const taken = Math.min(this.#needBytes - this.#heldBytes, chunk.length - at);
      this.#hold(chunk.subarray(at, at + taken));
      at += taken;
      sliceFrom = at;
      if (this.#heldBytes === this.#needBytes) {
        const piece = this.#decode();
        if (piece) yield piece;
      }
    }
    if (at > sliceFrom) yield { kind: 'slice', bytes: chunk.subarray(sliceFrom, at) };
  }

  /** Returns the offset behind frames of passed types that are whole in the chunk, quickly: rows come by the million. */
  #skipPassed(chunk: Buffer, from: number): number {
    const { bounds } = this.#direction;
    let at = from;
    while (at + HEADER_BYTES <= chunk.length && bounds[chunk[at] ?? 0] === PASSED) {
      const length = chunk.readInt32BE(at + 1);
      if (length < LENGTH_BYTES || length >= chunk.length - at) break;
      at += length + 1;
    }
    return at;
  }

  /** Returns whether the frame that starts here is of a passed type; then its payload passes next. */
  #pass(chunk: Buffer, at: number): boolean {
    const { bound, length } = this.#header(chunk, at);
    if (bound !== PASSED) {
      this.#needBytes = needed(bound, length);
      return false;
    }
    this.#passingBytes = length - LENGTH_BYTES;
    return true;
  }

  #hold(bytes: Buffer): void {
    this.#held.push(bytes);
    this.#heldBytes += bytes.length;
  }

  /** Decodes the held piece when it is long enough: it is a frame, a head, or a header that says how much is missing. */
  #decode(): Piece | undefined {
    const first = this.#held[0];
    const bytes = this.#held.length === 1 && first ? first : Buffer.concat(this.#held);
    const { type, bound, length } = this.#header(bytes, 0);
    const frameBytes = length + 1;
    if (bound !== PASSED && bytes.length < needed(bound, length)) {
      this.#held = [bytes];
      this.#needBytes = needed(bound, length);
      return undefined;
    }
    this.#held = [];
    this.#heldBytes = 0;
    this.#needBytes = HEADER_BYTES;
    this.#passingBytes = frameBytes - bytes.length;
    if (bound === PASSED) return { kind: 'slice', bytes };
    return frameBytes > bound ? { kind: 'head', type, length, bytes } : { kind: 'frame', type, bytes };
  }

  #header(bytes: Buffer, at: number): { type: number; bound: number; length: number } {
    const type = bytes[at] ?? 0;
    const bound = this.#direction.bounds[type] ?? 0;
    if (bound === 0)
      throw new ProtocolError(
        `The ${this.#direction.name} sent a message of the type 0x${type.toString(16)}, which the protocol does not know.`,
      );
    const length = bytes.readUInt32BE(at + 1);
    if (length < LENGTH_BYTES || length > LARGEST_LENGTH)
      throw new ProtocolError(
        `The ${this.#direction.name} sent a message "${String.fromCharCode(type)}" with the impossible length ${length}.`,
      );
    return { type, bound, length };
  }
}

function needed(bound: number, length: number): number {
  const frameBytes = length + 1;
  return frameBytes > bound ? Math.min(frameBytes, HEAD_BYTES) : frameBytes;
}

/** The server's MAX_STARTUP_PACKET_LENGTH. */
const LARGEST_STARTUP_BYTES = 10_000;
const SMALLEST_STARTUP_BYTES = 8;
const TLS_HANDSHAKE = 0x16;

/** Collects one packet of the start-up phase, which has a length and no type. */
export class StartupSplitter {
  #held: Buffer = Buffer.alloc(0);

  /** Returns the packet without its length, and what came behind it; undefined if it is incomplete. @throws ProtocolError */
  push(chunk: Buffer): { packet: Buffer; rest: Buffer } | undefined {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    if (this.#held[0] === TLS_HANDSHAKE)
      throw new DirectTls(
        'TLS from the first byte (sslnegotiation=direct) is not offered here: connect with sslmode=disable, the connection is local.',
      );
    if (this.#held.length < LENGTH_BYTES) return undefined;
    const length = this.#held.readUInt32BE(0);
    if (length < SMALLEST_STARTUP_BYTES || length > LARGEST_STARTUP_BYTES)
      throw new ProtocolError(`The start-up packet has the impossible length ${length}.`);
    if (this.#held.length < length) return undefined;
    const result = { packet: this.#held.subarray(LENGTH_BYTES, length), rest: this.#held.subarray(length) };
    this.#held = Buffer.alloc(0);
    return result;
  }
}
