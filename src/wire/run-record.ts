import type { Observer, ReadLocks, Statement } from './observed.ts';
import type { ParsedStatement } from './parse.ts';

const KEPT_SHAPES = 5000;

/** Statements of DML that were let through and observed, by their shape. */
type Shapes = Map<string, { readonly statement: Statement; readonly parsed: ParsedStatement }>;

/** What the sessions of one proxy share: the counters, and the shapes of DML that were observed in autocommit. */
export class RunRecord {
  readonly observer: Observer;
  readonly readLocks: ReadLocks;
  readonly #repeated = new Map<string, Shapes>();
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

  /** The shapes of one database: in another one the same words name other relations, and may not be let through. */
  repeatedIn(database: string): Shapes {
    const known: Shapes = this.#repeated.get(database) ?? new Map();
    this.#repeated.set(database, known);
    return known;
  }

  /** Keeps a shape, so that its next statement in autocommit can go straight through. */
  keepShape(shapes: Shapes, shape: string, statement: Statement, parsed: ParsedStatement): void {
    if (shapes.size >= KEPT_SHAPES) shapes.clear();
    shapes.set(shape, { statement, parsed });
  }
}
