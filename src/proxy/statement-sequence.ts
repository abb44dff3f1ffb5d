import type { BegunStatement, StatementStart } from './begun-statement.ts';
import type { SessionTransaction } from './session-transaction.ts';

/**
 * The statements that one request runs, in order. The server tells only their ends: the next one begins as the one before it
 * ends.
 */
export class StatementSequence {
  readonly #transaction: SessionTransaction;
  readonly #starts: readonly StatementStart[];
  readonly #begun: BegunStatement[] = [];
  #current: BegunStatement | undefined;

  /** Begins the first statement. */
  constructor(transaction: SessionTransaction, starts: readonly StatementStart[]) {
    this.#transaction = transaction;
    this.#starts = starts;
    this.#beginNext();
  }

  /** The statement that runs, or is suspended; undefined if all have ended, or one has failed. */
  get current(): BegunStatement | undefined {
    return this.#current;
  }

  /** The statement that began last. */
  get last(): BegunStatement | undefined {
    return this.#begun.at(-1);
  }

  completed(tag: string | null): void {
    if (!this.#current) return;
    this.#transaction.succeed(this.#current, tag);
    this.#beginNext();
  }

  suspended(): void {
    if (this.#current) this.#transaction.holdsLocks(this.#current);
  }

  failed(fields: ReadonlyMap<string, string>): void {
    if (this.#current) this.#transaction.fail(this.#current, fields);
    this.#current = undefined;
  }

  /** The statements were rolled back without the client's knowledge, and will be sent again. */
  undo(): void {
    this.#transaction.undo(this.#begun);
    this.#current = undefined;
  }

  #beginNext(): void {
    const start = this.#starts[this.#begun.length];
    this.#current = start && this.#transaction.begin(start);
    if (this.#current) this.#begun.push(this.#current);
  }
}
