import type { Piece } from '../postgres/protocol/frames.ts';
import { bindMessage, CLIENT, parseMessage, SYNC } from '../postgres/protocol/messages.ts';

type Frame = Extract<Piece, { kind: 'frame' }>;

const GATHERED: ReadonlySet<number> = new Set([CLIENT.parse, CLIENT.bind, CLIENT.describe, CLIENT.execute]);

/** The messages of the extended protocol between two Syncs, as long as they may run one statement once. */
export class Batch {
  readonly #frames: Frame[] = [];

  /** Tells whether a batch may begin with this message. */
  static begins(piece: Piece): boolean {
    return piece.kind === 'frame' && (piece.type === CLIENT.parse || piece.type === CLIENT.bind);
  }

  /** Adds a message. @returns false if it does not belong to the batch, which ends before it. */
  add(piece: Piece): boolean {
    if (piece.kind !== 'frame' || !GATHERED.has(piece.type)) return false;
    const once = piece.type === CLIENT.bind || piece.type === CLIENT.execute;
    if (once && this.#of(piece.type).length > 0) return false;
    this.#frames.push(piece);
    return true;
  }

  get pieces(): readonly Frame[] {
    return this.#frames;
  }

  /** Its Parse messages. */
  get parses(): readonly { name: string; text: Buffer }[] {
    return this.#of(CLIENT.parse).map(({ bytes }) => parseMessage(bytes));
  }

  /** The name of the prepared statement that is executed; undefined if none is. */
  get executes(): string | undefined {
    const [bind] = this.#of(CLIENT.bind);
    const [execute] = this.#of(CLIENT.execute);
    return bind && execute ? bindMessage(bind.bytes).statement : undefined;
  }

  /** Builds what is sent: with the Sync, without the first so many Parse messages, and with something in place of the Execute. */
  bytes({ withoutParses = 0, execute }: { withoutParses?: number; execute?: Buffer }): Buffer {
    const left = new Set(this.#of(CLIENT.parse).slice(0, withoutParses));
    const frames = this.#frames.filter((frame) => !left.has(frame));
    const sent = frames.map(({ type, bytes }) => (type === CLIENT.execute && execute ? execute : bytes));
    return Buffer.concat([...sent, SYNC]);
  }

  #of(type: number): Frame[] {
    return this.#frames.filter((frame) => frame.type === type);
  }
}
