import {
  encodeMessage,
  parameterStatus,
  SERVER,
  type TransactionStatus,
} from '../postgres/protocol/messages.ts';

/**
 * What the client gets later than it comes, because its text was sent in parts: the last completion waits for the COMMIT;
 * ParameterStatus and notifications wait for the ReadyForQuery at the text's end, where the server would have sent them.
 */
export class DeferredFrames {
  #completion: Buffer | undefined;
  readonly #parameters = new Map<string, Buffer>();
  #notifications: Buffer[] = [];

  /** Holds a completion. @returns the one before, which was not the last. */
  replaceCompletion(bytes: Buffer): Buffer[] {
    const earlier = this.takeCompletion();
    this.#completion = bytes;
    return earlier;
  }

  takeCompletion(): Buffer[] {
    const completion = this.#completion;
    this.#completion = undefined;
    return completion ? [completion] : [];
  }

  /** Keeps a ParameterStatus or a notification; of several values of a parameter the last one. */
  defer(bytes: Buffer): void {
    if (bytes[0] === SERVER.parameterStatus) this.#parameters.set(parameterStatus(bytes).name, bytes);
    else this.#notifications.push(bytes);
  }

  /** Takes what belongs before a ReadyForQuery. */
  takeAll(): Buffer[] {
    const frames = [...this.#notifications, ...this.#parameters.values()];
    this.#notifications = [];
    this.#parameters.clear();
    return frames;
  }

  /** Ends the text. The completion counts only if its transaction has `committed`. @returns what the client gets. */
  conclude(committed: boolean, status: TransactionStatus): Buffer[] {
    const completion = this.takeCompletion();
    return [...(committed ? completion : []), ...this.takeAll(), encodeMessage(SERVER.readyForQuery, status)];
  }
}
