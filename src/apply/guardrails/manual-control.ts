import { plural } from '../../format.ts';
import type { Observed, Statement } from '../../proxy/observed.ts';
import type { ManualOrder } from './control.ts';
import type { GuardrailEvents } from './guardrail-events.ts';

/**
 * What a person has told the run from another terminal. It acts between statements: a pause holds back what would begin a
 * transaction, an abort refuses the next statement and ends the command once none runs.
 */
export class ManualControl {
  readonly #happenings: GuardrailEvents;
  readonly #onAborted: () => void;
  /** Sessions with an open transaction. */
  readonly #open = new Set<number>();
  readonly #running = new Set<Statement>();
  #pausedSince: number | undefined;
  readonly #aborting = new AbortController();
  #wake = new AbortController();

  constructor(happenings: GuardrailEvents, onAborted: () => void) {
    this.#happenings = happenings;
    this.#onAborted = onAborted;
  }

  /** Aborts when the run was told to. */
  get aborting(): AbortSignal {
    return this.#aborting.signal;
  }

  get aborted(): boolean {
    return this.aborting.aborted;
  }

  readonly obey = (order: ManualOrder): string => {
    switch (order) {
      case 'pause':
        return this.#pause();
      case 'resume':
        return this.#resume();
      case 'abort':
        return this.#abort();
    }
  };

  observe(event: Observed): void {
    if (event.type === 'begin') {
      this.#open.add(event.statement.session);
      this.#running.add(event.statement);
    }
    if (event.type === 'end') {
      this.#running.delete(event.statement);
      if (this.aborted && this.#running.size === 0) this.#onAborted();
    }
    if (event.type === 'undone') for (const statement of event.statements) this.#running.delete(statement);
    if (event.type === 'transaction-end' || event.type === 'session-end') this.#open.delete(event.session);
  }

  /** Resolves when nothing is paused, or the signal says that nobody waits for that any more. */
  async hold(signal: AbortSignal): Promise<void> {
    while (this.#pausedSince !== undefined && !this.aborted && !signal.aborted) {
      const either = AbortSignal.any([signal, this.#wake.signal]);
      await new Promise((resolve) => either.addEventListener('abort', resolve, { once: true }));
    }
  }

  /** What was paused to the end counts as well. */
  end(): void {
    if (this.#pausedSince !== undefined) this.#happenings.paused(performance.now() - this.#pausedSince);
    this.#pausedSince = undefined;
  }

  #pause(): string {
    this.#pausedSince ??= performance.now();
    this.#happenings.say('paused: the next transaction is held back');
    if (this.#open.size === 0) return 'Paused. The next statement is held back.';
    const open = plural(this.#open.size, 'transaction');
    return `${open} of the command is open, and holds its locks: it goes on to its end. What comes after it is held back.`;
  }

  #resume(): string {
    if (this.#pausedSince === undefined) return 'It was not paused.';
    this.end();
    this.#rouse();
    this.#happenings.say('resumed');
    return 'Resumed.';
  }

  #abort(): string {
    this.#aborting.abort();
    this.end();
    this.#rouse();
    if (this.#running.size > 0)
      return 'The statement that runs goes on to its end; the next one is refused, and the command is ended.';
    this.#onAborted();
    return 'Aborted: no statement runs, and the command is ended.';
  }

  #rouse(): void {
    this.#wake.abort();
    this.#wake = new AbortController();
  }
}
