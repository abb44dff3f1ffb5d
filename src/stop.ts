import { SafemigrateError, sqlstateOf } from './errors.ts';

/**
 * The end of a run before its time: the caller's signal, or a loss that the run cannot go on with. While the command runs the
 * caller's signal belongs to the command, which may need a moment to end; a loss ends that too.
 */
export class Stop {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  #paused = false;
  readonly #onOuter = () => {
    if (!this.#paused)
      this.now(new SafemigrateError('INTERRUPTED', 'Interrupted. The target was not touched.'));
  };

  constructor(outer: AbortSignal | undefined) {
    this.#outer = outer;
    if (outer?.aborted) this.#onOuter();
    outer?.addEventListener('abort', this.#onOuter, { once: true });
  }

  /** Aborted with the SafemigrateError that ended the run. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The loss that ended the run, if it was one. */
  get lost(): SafemigrateError | undefined {
    const { aborted, reason } = this.signal;
    return aborted && reason instanceof SafemigrateError && reason.code === 'LOST' ? reason : undefined;
  }

  /** @throws SafemigrateError the loss that ended the run, if it was one. */
  throwIfLost(): void {
    if (this.lost) throw this.lost;
  }

  now(reason: SafemigrateError): void {
    this.#controller.abort(reason);
  }

  async pausedDuring<T>(work: () => Promise<T>): Promise<T> {
    this.#paused = true;
    try {
      return await work();
    } finally {
      this.#paused = false;
    }
  }

  /** No longer listens. */
  end(): void {
    this.#outer?.removeEventListener('abort', this.#onOuter);
  }
}

/** Finds the failure behind an error: if the signal has cut off a query or a wait, it is the signal's own reason. */
export function failureBehind(error: unknown, { aborted, reason }: AbortSignal): unknown {
  if (!aborted) return error;
  const isCutOff =
    error instanceof SafemigrateError ? error.code === 'INTERRUPTED' : sqlstateOf(error) === undefined;
  return isCutOff ? reason : error;
}
