import type { ParsedStatement } from '../postgres/sql/parse.ts';
import type { Observer, ReadLocks, RelationLock, StatementReading } from './observed.ts';

/** Statements of DML that were let through and observed, by their normalised text. */
export type ObservedDml = Map<string, ObservedStatement>;

export interface ObservedStatement {
  readonly parsed: ParsedStatement;
  /** Those that it added to its transaction's. */
  readonly locks: readonly RelationLock[];
}

/** What the parser said of DML that the gate let through, by its normalised text. */
export type PassedDml = Map<string, ParsedStatement>;

const KEPT_TEXTS = 5000;
/** For so long a reading is taken for the server's state before the next statement. */
const FRESH_MS = 20;
/** No backend has it. */
const NO_PID = 0;

/** What the sessions of one proxy share: counters, the last reading, and the DML that was observed. */
export class ProxyState {
  readonly observer: Observer;
  readonly #readLocks: ReadLocks;
  #lastReading: StatementReading | undefined;
  readonly #observedDml = new Map<string, ObservedDml>();
  readonly #passedDml = new Map<string, PassedDml>();
  #statements = 0;
  #transactions = 0;

  constructor(observer: Observer, readLocks: ReadLocks) {
    this.observer = observer;
    this.#readLocks = readLocks;
  }

  /** As of the last reading; null if it is not known. */
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

  /** The observed DML of one database: in another one the same words name other relations, and may not be let through. */
  observedDml(database: string): ObservedDml {
    const observed: ObservedDml = this.#observedDml.get(database) ?? new Map();
    this.#observedDml.set(database, observed);
    return observed;
  }

  /** The DML of one database that the gate let through, while statements go as they came. */
  passedDml(database: string): PassedDml {
    const passed: PassedDml = this.#passedDml.get(database) ?? new Map();
    this.#passedDml.set(database, passed);
    return passed;
  }

  /** Keeps DML that the gate let through, so that its repetitions need not be parsed. */
  keepPassed(passed: PassedDml, normalised: string, parsed: ParsedStatement): void {
    if (passed.size >= KEPT_TEXTS) passed.clear();
    passed.set(normalised, parsed);
  }

  /** Keeps a statement, so that its next repetition in autocommit can go straight through. */
  keepObserved(observed: ObservedDml, normalised: string, statement: ObservedStatement): void {
    if (observed.size >= KEPT_TEXTS) observed.clear();
    observed.set(normalised, statement);
  }
}
