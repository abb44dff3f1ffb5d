/**
 * The time for which the server works on what a session sends. It works on one message at a time, in their order: from the moment at which it
 * was sent, or, if the server was still at work then, from the end of what came before it. Pauses of the client count for nothing.
 *
 *   simple     A statement has the time from its Query, or from the end of the statement before it, to its completion or error.
 *   extended   The server answers a Parse, Bind or Describe together with what follows, unless a Flush or Sync does. So their time
 *              belongs to the next Execute before the ReadyForQuery; without one it is kept for the first Execute of what was prepared.
 *   portal     Each Execute that fetches a part adds its time.
 *   pipeline   Each Execute has the time from the end of the one before: a Flush behind each has the server tell its end.
 *   COPY       Sending and taking the data is a part of it, as in the server's log.
 *   function   A FunctionCall has the time to its result.
 *   end        The end of an implicit transaction, by our COMMIT or by a Sync, belongs to no statement, but for a Sync that came with its Execute.
 */
export class ServerClock {
  /** Since then the server has worked on nothing that had come before, by performance.now(). */
  #freeAtMs = 0;
  /** Time for messages that prepare a statement, since the last Execute or ReadyForQuery. */
  #preparingMs = 0;
  #preparation: Preparation | undefined;
  #busySinceMs: number | undefined;
  #busyMs = 0;
  #elsewhereMs = 0;

  /** When the server began to work on a request, or will have, if nothing was sent before it that is not answered. */
  beganAtMs(sentMs: number): number {
    return Math.max(sentMs, this.#freeAtMs);
  }

  /** A message that prepares a statement was answered. */
  prepared(sentMs: number, preparation: Preparation | undefined): void {
    this.#preparingMs += this.#lap(sentMs);
    this.#preparation = preparation ?? this.#preparation;
  }

  /** Something of a statement has ended. @returns its time in milliseconds, with that of the messages that prepared it. */
  worked(sentMs: number): number {
    const ms = this.#lap(sentMs) + this.#preparingMs;
    this.#preparingMs = 0;
    return ms;
  }

  /** A ReadyForQuery came. */
  ready(sentMs: number): void {
    this.#elsewhereMs += this.#lap(sentMs);
    if (this.#preparation) this.#preparation.ms += this.#preparingMs;
    else this.#elsewhereMs += this.#preparingMs;
    this.#preparation = undefined;
    this.#preparingMs = 0;
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

  /** The part of it that belongs to no statement: ends of transactions, statements of ours. */
  get elsewhereMs(): number {
    return this.#elsewhereMs;
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
