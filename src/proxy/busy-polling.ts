import { availableParallelism } from 'node:os';

/** Waits that are likely to be shorter are polled; no wait is polled for longer. */
const POLLED_MS = 0.3;

/**
 * Looks for the next message without sleeping while small messages go to and fro. To wake a process that sleeps takes longer than to
 * relay a small statement, and each would wait for it twice: for the proxy at its beginning, and again at its end.
 */
export class BusyPolling {
  readonly #mayPoll: boolean;
  #until = 0;
  #polls = false;

  /** @param processors with one alone, it would be the server that waits */
  constructor(processors = availableParallelism()) {
    this.#mayPoll = processors > 1;
  }

  /** Begins with one session. @returns what is to be called whenever something comes from one of its ends */
  exchange(): (from: 'client' | 'server') => void {
    const took = { client: Number.POSITIVE_INFINITY, server: Number.POSITIVE_INFINITY };
    let last: 'client' | 'server' = 'server';
    let since = performance.now();
    return (from) => {
      // More of the same is a stream, which keeps the processors busy by itself.
      if (from === last) return;
      const now = performance.now();
      took[from] = now - since;
      // The next answer is likely to take as long as the last, and so is the client's next statement.
      if (took[last] < POLLED_MS) this.#pollUntil(now + POLLED_MS);
      last = from;
      since = now;
    };
  }

  #pollUntil(time: number): void {
    if (!this.#mayPoll) return;
    this.#until = time;
    if (!this.#polls) setImmediate(this.#poll);
    this.#polls = true;
  }

  /** The event loop looks at its sockets between two of these, and does not wait for them. */
  readonly #poll = (): void => {
    this.#polls = performance.now() < this.#until;
    if (this.#polls) setImmediate(this.#poll);
  };
}
