import type { ParsedStatement } from '../postgres/sql/parse.ts';
import type { Observer, ReadLocks, RelationLock, StatementReading } from './observed.ts';

/** Statements of DML that the gate let through, by their normalised text, so that repetitions need not be parsed and judged again. */
export type KnownDml = Map<string, KnownStatement>;

interface KnownStatement {
  readonly parsed: ParsedStatement;
  /** Locks that it added to its transaction's; null if it was not observed. */
  readonly locks: readonly RelationLock[] | null;
}

const KEPT_TEXTS = 5000;
/** For so long a reading is taken for the server's state before the next statement. */
const FRESH_MS = 20;
/** No backend has it. */
const NO_PID = 0;

/** State that the sessions of one proxy share: counters, the last reading, and the DML that is known. */
export class ProxyState {
  readonly observer: Observer;
  readonly #readLocks: ReadLocks;
  #lastReading: StatementReading | undefined;
  readonly #dml = new Map<string, KnownDml>();
  #statements = 0;
  #transactions = 0;

  constructor(observer: Observer, readLocks: ReadLocks) {
    this.observer = observer;
    this.#readLocks = readLocks;
  }

  /** The position as of the last reading; null if it is not known. */
  get walPosition(): number | null {
    return this.#lastReading?.walPosition ?? null;
  }

  /** Reads the locks of a backend, and reports the reading. Never rejects. */
  async readLocks(pid: number, transaction: number | null): Promise<StatementReading | null> {
    const reading = await this.#readLocks(pid);
    if (reading) {
      this.#lastReading = reading;
      this.observer({ type: 'reading', transaction, reading });
    }
    return reading;
  }

  /** Reads the server's position in the WAL again, unless it is fresh. */
  async refreshWalPosition(): Promise<void> {
    if (this.#lastReading && performance.now() - this.#lastReading.askedMs < FRESH_MS) return;
    await this.readLocks(NO_PID, null);
  }

  nextStatement(): number {
    return ++this.#statements;
  }

  nextTransaction(): number {
    return ++this.#transactions;
  }

  /** The DML of one database: in another one the same words name other relations, and may not be let through. */
  knownDml(database: string): KnownDml {
    const known: KnownDml = this.#dml.get(database) ?? new Map();
    this.#dml.set(database, known);
    return known;
  }

  /** Keeps a statement for its next repetition. */
  keepDml(dml: KnownDml, normalised: string, statement: KnownStatement): void {
    if (dml.size >= KEPT_TEXTS) dml.clear();
    dml.set(normalised, statement);
  }
}
