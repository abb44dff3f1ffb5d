import { availableParallelism } from 'node:os';

/** Long enough for the answer to a small statement, and for the client's next one. */
const POLLED_MS = 0.3;

/**
 * Looks for the next message without sleeping, for a moment after each. To wake a process that sleeps takes longer than to relay a
 * small statement, and each would wait for it twice: for the proxy at its beginning, and again at its end. With one processor, it
 * would be the server that waits.
 */
export class BusyPolling {
  readonly #mayPoll: boolean;
  #until = 0;
  #polls = false;

  constructor(processors = availableParallelism()) {
    this.#mayPoll = processors > 1;
  }

  /** A message has come. */
  extend(): void {
    if (!this.#mayPoll) return;
    this.#until = performance.now() + POLLED_MS;
    if (!this.#polls) setImmediate(this.#poll);
    this.#polls = true;
  }

  /** The event loop looks at its sockets between two of these, and does not wait for them. */
  readonly #poll = (): void => {
    this.#polls = performance.now() < this.#until;
    if (this.#polls) setImmediate(this.#poll);
  };
}
