import { type Piece, ProtocolError } from '../postgres/protocol/frames.ts';
import { CLIENT, payloadOf } from '../postgres/protocol/messages.ts';
import type { UnreadText } from './observed.ts';

/**
 * A message with a text that is too large to be held. It is sent on as it comes, and the gate reads each part before: the server
 * runs nothing of a message whose end it does not get.
 */
export class LargeText {
  readonly #text: UnreadText;
  #ended = false;

  /** @param head of a Query, or of a Parse, whose text comes behind a name. @throws ProtocolError if the gate refuses it. */
  constructor(text: UnreadText, { type, bytes }: Extract<Piece, { kind: 'head' }>) {
    this.#text = text;
    const payload = payloadOf(bytes);
    const nameEnd = type === CLIENT.parse ? payload.indexOf(0) : -1;
    if (type === CLIENT.parse && nameEnd < 0)
      throw new ProtocolError('The name of the prepared statement is too long.');
    this.take(payload.subarray(nameEnd + 1));
  }

  /** Takes what comes next. @throws ProtocolError if the gate refuses it, after which nothing more must be sent. */
  take(bytes: Buffer): void {
    if (this.#ended) return;
    const end = bytes.indexOf(0);
    this.#ended = end >= 0;
    const answer = this.#ended ? this.#text.end(bytes.subarray(0, end)) : this.#text.push(bytes);
    if (answer !== 'run') throw new ProtocolError(answer.message);
  }
}
