import { plural } from '../../format.ts';
import type { Observed, Statement } from '../../proxy/observed.ts';
import type { ManualOrder } from './control.ts';
import type { GuardrailEvents } from './guardrail-events.ts';

/**
 * Carries out the orders that a person gives from another terminal. They take effect between statements: a pause holds the
 * next statement that would begin a transaction; an abort refuses the next statement, and ends the command once none runs.
 */
export class ManualControl {
  readonly #events: GuardrailEvents;
  readonly #onEnd: () => void;
  readonly #onPause: (isPaused: boolean) => void;
  /** Sessions with an open transaction. */
  readonly #open = new Set<number>();
  readonly #running = new Set<Statement>();
  #pausedSince: number | undefined;
  #endedCommand = false;
  readonly #aborting = new AbortController();
  #wake = new AbortController();

  /** @param happens.onEnd ends the command. */
  constructor(
    events: GuardrailEvents,
    happens: { readonly onEnd: () => void; readonly onPause: (isPaused: boolean) => void },
  ) {
    this.#events = events;
    this.#onEnd = happens.onEnd;
    this.#onPause = happens.onPause;
  }

  /** Fires on the order to abort. */
  get aborting(): AbortSignal {
    return this.#aborting.signal;
  }

  get aborted(): boolean {
    return this.aborting.aborted;
  }

  /** Tells if an abort has ended the command. */
  get endedCommand(): boolean {
    return this.#endedCommand;
  }

  readonly handle = (order: ManualOrder): string => {
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
      if (this.aborted && this.#running.size === 0) this.#endCommand();
    }
    if (event.type === 'undone') for (const statement of event.statements) this.#running.delete(statement);
    if (event.type === 'transaction-end' || event.type === 'session-end') this.#open.delete(event.session);
  }

  /** Waits while the run is paused, or until the signal fires. */
  async hold(signal: AbortSignal): Promise<void> {
    while (this.#pausedSince !== undefined && !this.aborted && !signal.aborted) {
      const either = AbortSignal.any([signal, this.#wake.signal]);
      await new Promise((resolve) => either.addEventListener('abort', resolve, { once: true }));
    }
  }

  /** Records the time of a pause that lasts to the end. */
  end(): void {
    if (this.#pausedSince !== undefined) this.#events.paused(performance.now() - this.#pausedSince);
    this.#pausedSince = undefined;
  }

  #pause(): string {
    this.#pausedSince ??= performance.now();
    this.#onPause(true);
    this.#events.say('paused: the next transaction is held');
    if (this.#open.size === 0) return 'Paused. The next statement is held.';
    const open = plural(this.#open.size, 'transaction');
    return `Pausing: ${open} of the command ${this.#open.size === 1 ? 'is' : 'are'} open, with locks held, and will run to the end. Statements after that are held.`;
  }

  #resume(): string {
    if (this.#pausedSince === undefined) return 'It was not paused.';
    this.end();
    this.#wakeAll();
    this.#onPause(false);
    this.#events.say('resumed');
    return 'Resumed.';
  }

  #abort(): string {
    this.#aborting.abort();
    this.end();
    this.#wakeAll();
    if (this.#running.size > 0)
      return 'Aborting: the running statement is not interrupted; the next one is refused, and the command is ended.';
    this.#endCommand();
    return 'Aborted: no statement was running, and the command is ended.';
  }

  #endCommand(): void {
    this.#endedCommand = true;
    this.#onEnd();
  }

  #wakeAll(): void {
    this.#wake.abort();
    this.#wake = new AbortController();
  }
}
