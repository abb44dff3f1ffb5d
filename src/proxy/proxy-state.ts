import type { ParsedStatement } from '../postgres/sql/parse.ts';
import type { Observer, ReadLocks, Statement, StatementReading } from './observed.ts';

const KEPT_SHAPES = 5000;
/** For so long a look at the server is taken for the state before the next statement. */
const FRESH_MS = 20;
/** No backend has it. */
const NO_PID = 0;

/** Statements of DML that were let through and observed, by their shape. */
type Shapes = Map<string, { readonly statement: Statement; readonly parsed: ParsedStatement }>;

/** What the sessions of one proxy share: the counters, and the shapes of DML that were observed in autocommit. */
export class ProxyState {
  readonly observer: Observer;
  readonly #readLocks: ReadLocks;
  #last: StatementReading | undefined;
  readonly #repeated = new Map<string, Shapes>();
  #statements = 0;
  #transactions = 0;

  constructor(observer: Observer, readLocks: ReadLocks) {
    this.observer = observer;
    this.#readLocks = readLocks;
  }

  /** As of the last look; null where it is not known. */
  get walPosition(): number | null {
    return this.#last?.walPosition ?? null;
  }

  /** Looks at a backend, and tells what it saw. @param transaction that it is about. */
  async look(pid: number, transaction: number | null): Promise<StatementReading | null> {
    const reading = await this.#readLocks(pid);
    if (reading) {
      this.#last = reading;
      this.observer({ type: 'reading', transaction, reading });
    }
    return reading;
  }

  /** Before a statement whose end will be looked at: what was written since the last one is not its own. */
  async freshen(): Promise<void> {
    if (this.#last && performance.now() - this.#last.askedMs < FRESH_MS) return;
    await this.look(NO_PID, null);
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
