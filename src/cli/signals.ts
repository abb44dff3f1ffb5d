import { EventEmitter } from 'node:events';
import type { InterruptSignal, Interrupts } from '../command/run-command.ts';
import { exitCodeOfSignal } from './exit-codes.ts';

const SIGNALS: InterruptSignal[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];

/** The first signal ends the run, the second one kills the command, the third one prints a warning, the fourth one exits at once. */
const WARNING = 3;
const LEAVING = 4;

/**
 * Turns the signals that end a run into something that the core can wait for. The first one aborts the run, which then cleans
 * up; whoever runs the command decides what further ones mean.
 */
export class SignalWatch {
  /** The first signal that came. */
  received: InterruptSignal | undefined;
  /** Every signal that comes. */
  readonly interrupts: Interrupts = new EventEmitter();
  #count = 0;
  readonly #controller = new AbortController();
  readonly #onSignal = (signal: NodeJS.Signals) => {
    const known = SIGNALS.find((candidate) => candidate === signal);
    if (!known) return;
    this.received ??= known;
    this.#count += 1;
    if (this.#count === WARNING)
      process.stderr.write('safemigrate: still cleaning up. Once more leaves that to `safemigrate clean`.\n');
    // The same as a kill: `clean` finds what is left.
    if (this.#count === LEAVING) process.exit(exitCodeOfSignal(this.received));
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
