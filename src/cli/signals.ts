import { EventEmitter } from 'node:events';
import type { InterruptSignal, Interrupts } from '../command/run-command.ts';

const SIGNALS: InterruptSignal[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/**
 * The signals that end a run, turned into something the core can wait for: the first one asks everything to end and
 * clean up; what more of them mean is for the one who runs the command.
 */
export class SignalWatch {
  /** The first signal that came. */
  received: InterruptSignal | undefined;
  /** Every signal that comes. */
  readonly interrupts: Interrupts = new EventEmitter();
  readonly #controller = new AbortController();
  readonly #onSignal = (signal: NodeJS.Signals) => {
    const known = SIGNALS.find((candidate) => candidate === signal);
    if (!known) return;
    this.received ??= known;
    this.interrupts.emit('signal', known);
    this.#controller.abort();
  };

  constructor() {
    for (const signal of SIGNALS) process.on(signal, this.#onSignal);
  }

  /** Aborted by the first signal. */
  get abort(): AbortSignal {
    return this.#controller.signal;
  }

  stop(): void {
    for (const signal of SIGNALS) process.off(signal, this.#onSignal);
  }
}
