const SIGNALS: NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/**
 * The signals that end a run, turned into something the core can wait for: the first one asks everything to end and
 * clean up; what more of them mean is for the one who runs the command.
 */
export class SignalWatch {
  /** The first signal that came. */
  received: NodeJS.Signals | undefined;
  readonly #controller = new AbortController();
  readonly #listeners = new Set<(signal: NodeJS.Signals) => void>();
  readonly #onSignal = (signal: NodeJS.Signals) => {
    this.received ??= signal;
    for (const listener of this.#listeners) listener(signal);
    this.#controller.abort();
  };

  constructor() {
    for (const signal of SIGNALS) process.on(signal, this.#onSignal);
  }

  /** Aborted by the first signal. */
  get abort(): AbortSignal {
    return this.#controller.signal;
  }

  /** Every signal that comes, also the second and third. @returns a function that ends the listening. */
  listen(listener: (signal: NodeJS.Signals) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  stop(): void {
    for (const signal of SIGNALS) process.off(signal, this.#onSignal);
  }
}
