import type { Piece } from '../postgres/protocol/frames.ts';
import { bindMessage, CLIENT, parseMessage, SYNC } from '../postgres/protocol/messages.ts';

type Frame = Extract<Piece, { kind: 'frame' }>;

const GATHERED: ReadonlySet<number> = new Set([CLIENT.parse, CLIENT.bind, CLIENT.describe, CLIENT.execute]);

/** The messages of the extended protocol between two Syncs, as long as they may run one statement once. */
export class Batch {
  readonly #frames: Frame[] = [];

  static begins(piece: Piece): boolean {
    return piece.kind === 'frame' && (piece.type === CLIENT.parse || piece.type === CLIENT.bind);
  }

  /** @returns whether it belongs to the batch; else the batch ends before it. */
  add(piece: Piece): boolean {
    if (piece.kind !== 'frame' || !GATHERED.has(piece.type)) return false;
    const once = piece.type === CLIENT.bind || piece.type === CLIENT.execute;
    if (once && this.#of(piece.type).length > 0) return false;
    this.#frames.push(piece);
    return true;
  }

  get pieces(): readonly Piece[] {
    return this.#frames;
  }

  get parses(): readonly { name: string; text: Buffer }[] {
    return this.#of(CLIENT.parse).map(({ bytes }) => parseMessage(bytes));
  }

  /** The name of the prepared statement that is executed; undefined where none is. */
  get executes(): string | undefined {
    const [bind] = this.#of(CLIENT.bind);
    const [execute] = this.#of(CLIENT.execute);
    return bind && execute ? bindMessage(bind.bytes).statement : undefined;
  }

  /** With the Sync, and without the first so many Parse messages. */
  bytes(withoutParses: number): Buffer {
    const left = new Set(this.#of(CLIENT.parse).slice(0, withoutParses));
    return Buffer.concat([
      ...this.#frames.filter((frame) => !left.has(frame)).map(({ bytes }) => bytes),
      SYNC,
    ]);
  }

  #of(type: number): Frame[] {
    return this.#frames.filter((frame) => frame.type === type);
  }
}
