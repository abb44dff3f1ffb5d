import type { Socket } from 'node:net';
import type { FrameSplitter, Piece } from './frames.ts';

/** If more than this waits to be taken, the socket pauses, and its sender has to wait. */
const WAITING_BYTES = 256 * 1024;

/**
 * The pieces of a socket's stream, taken one at a time. It reads ahead a little even while nothing is taken,
 * because only a socket that is read reports that its other end has gone.
 */
export class PieceReader {
  readonly #socket: Socket;
  readonly #splitter: FrameSplitter;
  #waiting: Piece[] = [];
  #waitingBytes = 0;
  #ended = false;
  #failure: Error | undefined;
  #wake: (() => void) | undefined;
  #listener: ((pieces: Iterable<Piece>) => void) | undefined;

  /** @param rest the start of the stream, which was read already. */
  constructor(socket: Socket, splitter: FrameSplitter, rest?: Buffer) {
    this.#socket = socket;
    this.#splitter = splitter;
    if (rest && rest.length > 0) this.#read(rest);
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.on('end', () => this.#end());
    socket.on('close', () => this.#end());
    socket.on('error', () => this.#end());
    socket.resume();
  }

  get atBoundary(): boolean {
    return this.#splitter.atBoundary;
  }

  /** The other side will send no more; pieces may still wait. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Resolves when take() has a piece, or the stream has ended. */
  async ready(): Promise<void> {
    while (this.#waiting.length === 0 && !this.#ended && !this.#failure)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
  }

  /** Takes the next piece; undefined at the stream's end or if none has come. @throws ProtocolError */
  take(): Piece | undefined {
    const piece = this.#waiting.shift();
    if (!piece) {
      if (this.#failure) throw this.#failure;
      return undefined;
    }
    this.#waitingBytes -= piece.bytes.length;
    if (this.#waitingBytes < WAITING_BYTES && this.#socket.isPaused()) this.#socket.resume();
    return piece;
  }

  /** Has these pieces, which were taken, taken again before all others. */
  putBack(pieces: readonly Piece[]): void {
    this.#waiting.unshift(...pieces);
    for (const { bytes } of pieces) this.#waitingBytes += bytes.length;
  }

  /** Waits for the next piece and takes it; undefined at the stream's end. @throws ProtocolError */
  async next(): Promise<Piece | undefined> {
    if (this.#waiting.length === 0) await this.ready();
    return this.take();
  }

  /** Passes every chunk's pieces to the listener from now on, and leaves it to the listener to pause the socket. */
  listen(listener: (pieces: Iterable<Piece>) => void): void {
    this.#listener = listener;
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    if (waiting.length > 0) listener(waiting);
    if (this.#socket.isPaused()) this.#socket.resume();
  }

  #read(chunk: Buffer): void {
    if (this.#failure) return;
    try {
      const pieces = this.#splitter.push(chunk);
      if (this.#listener) {
        this.#listener(pieces);
        return;
      }
      for (const piece of pieces) {
        this.#waiting.push(piece);
        this.#waitingBytes += piece.bytes.length;
      }
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error));
      if (this.#listener) this.#socket.destroy(this.#failure);
    }
    if (this.#waitingBytes >= WAITING_BYTES) this.#socket.pause();
    this.#wake?.();
  }

  #end(): void {
    this.#ended = true;
    this.#wake?.();
  }
}
