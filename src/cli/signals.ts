import { EventEmitter } from 'node:events';
import type { InterruptSignal, Interrupts } from '../command/run-command.ts';
import { exitCodeOfSignal } from './exit-codes.ts';

const SIGNALS: InterruptSignal[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];

/** With the first one everything ends, the second one kills the command. Who goes on is told what comes of it, and then obeyed. */
const WARNING = 3;
const LEAVING = 4;

/**
 * The signals that end a run, turned into something the core can wait for: the first one asks everything to end and
 * clean up; what more of them mean is for the one who runs the command.
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
    // As if it were killed, which leaves what clean finds.
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
