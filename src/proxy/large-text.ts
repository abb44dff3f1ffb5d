import { ProtocolError } from '../postgres/protocol/frames.ts';
import type { Gate } from './observed.ts';

/** No words that the gate looks for are longer, with what stands between them. */
const OVERLAP_BYTES = 256;

/**
 * A message with a text that is too large to be held. It is sent on as it comes, and the gate looks at each part before: the server
 * runs nothing of a message whose end it does not get.
 */
export class LargeText {
  readonly #gate: Gate;
  #bytesLeft: number;
  #tail = '';

  constructor(gate: Gate, bytes: number) {
    this.#gate = gate;
    this.#bytesLeft = bytes;
  }

  /** Takes what comes next. @throws ProtocolError if the gate refuses it, after which nothing more must be sent. */
  take(bytes: Buffer): void {
    if (this.#bytesLeft <= 0) return;
    this.#bytesLeft -= bytes.length;
    const text = this.#tail + bytes.toString('latin1');
    this.#tail = text.slice(-OVERLAP_BYTES);
    const answer = this.#gate.part?.(text) ?? 'run';
    if (answer !== 'run') throw new ProtocolError(answer.message);
  }
}
