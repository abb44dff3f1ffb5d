/**
 * The time for which the server works on the messages of a session, one at a time and in their order: from the sending of a message, or, if the
 * server was still busy then, from the end of the one before. Pauses of the client do not count.
 *
 *   simple     A statement has the time from its Query, or from the end of the statement before it, to its completion or error.
 *   extended   The server keeps the answers to Parse, Bind and Describe back until an Execute ends, or a Flush or Sync comes. If they come
 *              together with the end of an Execute, their time is that statement's. If they come before, it is that of the
 *              first Execute of what they prepare.
 *   portal     Each Execute that fetches a part adds its time.
 *   pipeline   Each Execute has the time from the end of the one before: a Flush behind each makes the server report its end.
 *   COPY       The client's sending and taking of data counts, as in the server's log.
 *   function   A FunctionCall has the time to its result.
 *   end        The end of an implicit transaction, by our COMMIT or a Sync, belongs to no statement, unless the Sync was sent with its Execute.
 */
export class ServerClock {
  /** The end of the server's last work, by performance.now(). */
  #freeAtMs = 0;
  /** Time of messages that prepare a statement, whose answers have come just now; the end of an Execute may be behind them. */
  #preparingMs = 0;
  #preparation: Preparation | undefined;
  #busySinceMs: number | undefined;
  #busyMs = 0;
  #elsewhereMs = 0;

  /** Returns when the server began to work on a request that nothing unanswered precedes. */
  beganAtMs(sentMs: number): number {
    return Math.max(sentMs, this.#freeAtMs);
  }

  /** A message that prepares a statement was answered. */
  prepared(sentMs: number, preparation: Preparation | undefined): void {
    this.#preparingMs += this.#lap(sentMs);
    this.#preparation = preparation ?? this.#preparation;
  }

  /**
   * Something of a statement has ended.
   * @param preparation gives away the time since the statement began.
   * @returns its time in milliseconds, with that of the messages that prepared it.
   */
  worked(sentMs: number, preparation: Preparation | undefined): number {
    const earlierMs = preparation?.ms ?? 0;
    if (preparation) preparation.ms = 0;
    const ms = this.#lap(sentMs) + this.#preparingMs + earlierMs;
    this.#elsewhereMs -= earlierMs;
    this.#forgetPreparing();
    return ms;
  }

  /** A ReadyForQuery came. */
  ready(sentMs: number): void {
    this.settle();
    this.#elsewhereMs += this.#lap(sentMs);
  }

  /** Everything that came together was taken: no Execute has ended behind what was answered last. */
  settle(): void {
    this.#elsewhereMs += this.#preparingMs;
    if (this.#preparation) this.#preparation.ms += this.#preparingMs;
    this.#forgetPreparing();
  }

  /** Something is sent, or nothing is unanswered any more. */
  busy(isBusy: boolean): void {
    const now = performance.now();
    if (!isBusy && this.#busySinceMs !== undefined) this.#busyMs += now - this.#busySinceMs;
    this.#busySinceMs = isBusy ? (this.#busySinceMs ?? now) : undefined;
  }

  /** For how long answers were outstanding. */
  get busyMs(): number {
    return this.#busyMs;
  }

  /** The part of it in which no statement had begun: ends of transactions, statements of ours, messages that only prepared one. */
  get elsewhereMs(): number {
    return this.#elsewhereMs;
  }

  #forgetPreparing(): void {
    this.#preparation = undefined;
    this.#preparingMs = 0;
  }

  #lap(sentMs: number): number {
    const now = performance.now();
    const ms = now - this.beganAtMs(sentMs);
    this.#freeAtMs = now;
    return ms;
  }
}

/** Time that the server took to prepare a statement which is not executed yet. */
export interface Preparation {
  ms: number;
}
