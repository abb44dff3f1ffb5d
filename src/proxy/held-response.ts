import { lockFailureOf } from '../postgres/lock-modes.ts';
import {
  encodeMessage,
  errorFields,
  parameterStatus,
  SERVER,
  type TransactionStatus,
  transactionStatus,
} from '../postgres/protocol/messages.ts';

const NO_TYPE = 0;

interface HeldFrame {
  /** NO_TYPE: a part of rows or of a large message, which begins and ends anywhere. */
  readonly type: number;
  readonly bytes: Buffer;
}

/**
 * The answer to a request that may be sent again: the client gets it only when it counts.
 *
 *   holding    frames are kept. Without a limit up to the first row or completion, which cannot be taken back once the
 *              client has it; with a limit, up to so many bytes, rows and completions included.
 *   released   the client has everything, and gets the rest as it comes; an error is no longer held.
 *   failed     the error (a lock timeout or a deadlock) is among the kept frames, and its ReadyForQuery is awaited or kept as well. Either the
 *              request is sent again, and the frames are dropped, or the client gets them after all.
 */
export class HeldResponse {
  readonly #limitBytes: number | undefined;
  #frames: HeldFrame[];
  #bytes = 0;
  #holding = true;
  #error: ReadonlyMap<string, string> | undefined;
  #ready: Buffer | undefined;
  #parsesAnswered: number;

  /** @param frames the `parseAnswers` of the attempt before. */
  constructor(limitBytes?: number, frames: readonly HeldFrame[] = []) {
    this.#limitBytes = limitBytes;
    this.#frames = [...frames];
    this.#parsesAnswered = frames.length;
  }

  /** The fields of the error that is held. */
  get error(): ReadonlyMap<string, string> | undefined {
    return this.#error;
  }

  /** The ReadyForQuery behind the error. */
  get ready(): Buffer | undefined {
    return this.#ready;
  }

  /** The session's status behind the error. */
  get status(): TransactionStatus | undefined {
    return this.#ready && transactionStatus(this.#ready);
  }

  /** So many Parse messages have succeeded, in this attempt and in those before. */
  get parsesAnswered(): number {
    return this.#parsesAnswered;
  }

  /** Messages at the start of the answer that say that a Parse succeeded: a named statement outlives the failure. */
  get parseAnswers(): readonly HeldFrame[] {
    return this.#frames.filter(({ type }) => type === SERVER.parseComplete);
  }

  /** A frame came that precedes rows and completions. @returns what the client gets now, as those below. */
  preliminary(bytes: Buffer): Buffer[] {
    if (bytes[0] === SERVER.parseComplete) this.#parsesAnswered++;
    return this.#take(bytes, bytes[0] ?? 0, false);
  }

  /** A completion came. */
  result(bytes: Buffer): Buffer[] {
    return this.#take(bytes, bytes[0] ?? 0, true);
  }

  /** Rows came, or a part of a large message. */
  slice(bytes: Buffer): Buffer[] {
    return this.#take(bytes, NO_TYPE, true);
  }

  /** Copied data will come, which is not kept. */
  copyOut(bytes: Buffer): Buffer[] {
    return this.#limitBytes === undefined ? this.preliminary(bytes) : [...this.release(), bytes];
  }

  /**
   * A notice, a parameter or a notification came, which may come at any time. It goes out at once if nothing is kept
   * before it: a notice of progress is of no use later.
   */
  aside(bytes: Buffer): Buffer[] {
    return this.#frames.length === 0 && this.#limitBytes === undefined ? [bytes] : this.preliminary(bytes);
  }

  /** Keeps the error if the request may be sent again because of it. @returns whether it is kept. */
  keepError(bytes: Buffer): boolean {
    const fields = errorFields(bytes);
    if (!this.#holding || lockFailureOf(fields.get('C')) === undefined) return false;
    this.#frames.push({ type: SERVER.errorResponse, bytes });
    this.#error = fields;
    return true;
  }

  keepReady(bytes: Buffer): void {
    this.#ready = bytes;
  }

  /** Stops holding. @returns what the client gets now. */
  release(): Buffer[] {
    const frames = this.#frames;
    this.#frames = [];
    this.#holding = false;
    return frames.map(({ bytes }) => bytes);
  }

  /** Takes out what is no part of the answer: values of parameters are those that the session has behind the rollback. */
  takeAsides(): Buffer[] {
    const asides = this.#frames.filter(isAside);
    this.#frames = this.#frames.filter((frame) => !isAside(frame));
    return asides.map(({ bytes }) => bytes);
  }

  #take(bytes: Buffer, type: number, isResult: boolean): Buffer[] {
    if (!this.#holding) return [bytes];
    this.#bytes += bytes.length;
    const tooMuch = this.#limitBytes === undefined ? isResult : this.#bytes > this.#limitBytes;
    if (tooMuch && !this.#error) return [...this.release(), bytes];
    this.#frames.push({ type, bytes });
    return [];
  }
}

function isAside({ type }: HeldFrame): boolean {
  return type === SERVER.parameterStatus || type === SERVER.notification;
}

/**
 * Frames that the client gets later than they come, because its text was sent in parts: the last completion waits for the COMMIT;
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
