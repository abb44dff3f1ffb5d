import type { Observer, ReadLocks, Statement } from './observed.ts';
import type { ParsedStatement } from './parse.ts';

const KEPT_SHAPES = 5000;

/** What the sessions of one proxy share: the counters, and the shapes of DML that were observed in autocommit. */
export class RunRecord {
  readonly observer: Observer;
  readonly readLocks: ReadLocks;
  readonly repeated = new Map<string, { statement: Statement; parsed: ParsedStatement }>();
  #statements = 0;
  #transactions = 0;

  constructor(observer: Observer, readLocks: ReadLocks) {
    this.observer = observer;
    this.readLocks = readLocks;
  }

  nextStatement(): number {
    return ++this.#statements;
  }

  nextTransaction(): number {
    return ++this.#transactions;
  }

  /** Keeps a shape, so that its next statement in autocommit can go straight through. */
  keepShape(shape: string, statement: Statement, parsed: ParsedStatement): void {
    if (this.repeated.size >= KEPT_SHAPES) this.repeated.clear();
    this.repeated.set(shape, { statement, parsed });
  }
}
