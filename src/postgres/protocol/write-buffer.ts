import type { Socket } from 'node:net';

/** Beyond this, copying what is to be sent costs more than a second system call. */
const COPIED_BYTES = 32 * 1024;

/**
 * Gathers what goes to a socket into as few writes as possible: pieces that were cut from one chunk are joined again by
 * their positions in memory. A system call costs more than everything else that is done for a small message.
 */
export class WriteBuffer {
  readonly #socket: Socket;
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Bytes that the socket has not sent yet, and those that wait here. */
  get waitingBytes(): number {
    return this.#bytes + this.#socket.writableLength;
  }

  add(bytes: Buffer): void {
    this.#bytes += bytes.length;
    const last = this.#pieces.at(-1);
    if (last?.buffer === bytes.buffer && last.byteOffset + last.length === bytes.byteOffset)
      this.#pieces[this.#pieces.length - 1] = Buffer.from(
        last.buffer,
        last.byteOffset,
        last.length + bytes.length,
      );
    else this.#pieces.push(bytes);
  }

  /** Writes everything to the socket, unless that is closed. */
  flush(): void {
    const [first] = this.#pieces;
    if (!first) return;
    const pieces = this.#pieces;
    const bytes = this.#bytes;
    this.#pieces = [];
    this.#bytes = 0;
    const socket = this.#socket;
    if (socket.destroyed || socket.writableEnded) return;
    if (pieces.length === 1) socket.write(first);
    else if (bytes <= COPIED_BYTES) socket.write(Buffer.concat(pieces, bytes));
    else {
      socket.cork();
      for (const piece of pieces) socket.write(piece);
      socket.uncork();
    }
  }
}
