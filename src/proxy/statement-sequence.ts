import type { BegunStatement, StatementStart } from './begun-statement.ts';
import type { SessionTransaction } from './session-transaction.ts';

/** Code in a loop may warn of each row. */
const MOST_WARNINGS = 5;

/**
 * The statements that one request runs, in order. The first begins when the server has answered everything before the request but for the
 * messages that prepare it: until then it belongs to no transaction. The server tells only ends: the next statement begins as the one
 * before it ends. The server's time for each is that of server-clock.ts.
 */
export class StatementSequence {
  readonly #transaction: SessionTransaction;
  readonly #starts: readonly StatementStart[];
  readonly #begun: BegunStatement[] = [];
  #current: BegunStatement | undefined;
  #ended = false;

  constructor(transaction: SessionTransaction, starts: readonly StatementStart[]) {
    this.#transaction = transaction;
    this.#starts = starts;
  }

  /** The last statement has not ended, as far as the server has answered, and none has failed. */
  get open(): boolean {
    return !this.#ended;
  }

  /**
   * Begins the first statement: an execution that was suspended goes on, a portal that has ended is executed again.
   * @param atMs when the server began to work on it, by performance.now().
   */
  begin(atMs: number): void {
    if (this.#current) return;
    this.#begun.length = 0;
    this.#beginNext(atMs);
  }

  /** The prepared statement that it executes. */
  get preparation(): StatementStart['preparation'] {
    return this.#starts[0]?.preparation;
  }

  /** Tells whether it executes this prepared statement. */
  executes({ preparation }: StatementStart): boolean {
    return preparation !== undefined && this.preparation === preparation;
  }

  /** The server has worked on the statement that runs for so many milliseconds. */
  worked(ms: number): void {
    if (this.#current) this.#current.durationMs += ms;
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
    this.#beginNext(performance.now());
  }

  /** @param rows that were fetched before it was suspended. */
  suspended(rows: number): void {
    if (!this.#current) return;
    this.#current.fetchedRows += rows;
    this.#transaction.holdsLocks(this.#current);
  }

  /** A warning came, which is about the statement that runs. */
  warned(fields: ReadonlyMap<string, string>): void {
    const { warnings } = this.#current ?? {};
    if (warnings && warnings.length < MOST_WARNINGS) warnings.push(fields);
  }

  failed(fields: ReadonlyMap<string, string>): void {
    if (this.#current) this.#transaction.fail(this.#current, fields);
    this.#current = undefined;
    this.#ended = true;
  }

  /** The statements were rolled back without the client's knowledge, and will be sent again. */
  undo(): void {
    this.#transaction.undo(this.#begun);
    this.#current = undefined;
    this.#ended = true;
  }

  #beginNext(atMs: number): void {
    const start = this.#starts[this.#begun.length];
    this.#current = start && this.#transaction.begin(start, atMs);
    if (this.#current) this.#begun.push(this.#current);
    this.#ended = this.#current === undefined;
  }
}
