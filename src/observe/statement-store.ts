import { steadyDate } from '../clock.ts';
import { beginsAsData, beginsAsIncidental } from '../postgres/sql/classify-statement.ts';
import type { Exactness, Observed, Outcome, RelationLock, Statement } from '../proxy/observed.ts';
import { type EndedStatement, type RepeatedStatement, RepeatedStatements } from './repeated-statements.ts';

/** Facts about one statement. */
export interface StoredStatement {
  readonly statement: Statement;
  outcome?: Outcome;
  exactness: Exactness;
  locks: readonly RelationLock[] | null;
  walBytes: number | null;
  /** The proxy has reported what it knows of the locks. */
  hasReported: boolean;
  /** Seen by the sampler; kept apart, because what the proxy reports later is better. */
  readonly sampled: SampledLock[];
  /** The times of the sampler's first and last look. */
  sampledAt?: { readonly first: number; readonly last: number };
}

/** A lock, with the times of the first and the last look that saw it. */
export interface SampledLock extends RelationLock {
  readonly since: number;
  until: number;
}

/** One transaction of the command. */
export interface StoredTransaction {
  readonly transaction: number;
  readonly session: number;
  readonly startedAt: Date;
  end?: Pick<TransactionEnd, 'at' | 'outcome'>;
  /** Number of its statements that are kept one by one. */
  kept: number;
  readonly repeated: RepeatedStatements;
}

type Locks = Extract<Observed, { type: 'locks' }>;
type TransactionEnd = Extract<Observed, { type: 'transaction-end' }>;

/** A command that sends no more statements than this has each of them in the report. */
const ALL_KEPT = 2000;
/** Number of a longer command's first statements that are kept. */
const FIRST_KEPT = 500;
/** Number of the slowest others that are kept. */
const SLOWEST_KEPT = 200;

/**
 * The command's statements and transactions, in memory that does not grow with their number. Up to 2,000 statements are kept one
 * by one. Of more, these are: the first 500, the 200 slowest, and all that failed or change definitions. The others are grouped
 * by their normalised text: within their transaction, and when that has ended, over all such transactions of the session.
 */
export class StatementStore {
  readonly #kept = new Map<number, StoredStatement>();
  readonly #transactions = new Map<number, StoredTransaction>();
  /** Totals per normalised text, for finished transactions. */
  readonly #repeated = new RepeatedStatements();
  /** Ordered by duration, the shortest first. */
  readonly #slowest: EndedStatement[] = [];
  /** Transactions that have ended, and in which a group of `#repeated` begins. */
  readonly #firstOfGroup = new Map<number, StoredTransaction>();
  /** Prepared transactions that nothing has ended yet, by the text of their identifier. */
  readonly #prepared = new Map<string, StoredTransaction>();
  #begun = 0;

  begin(statement: Statement): void {
    this.#begun = Math.max(this.#begun, statement.id);
    this.#kept.set(statement.id, {
      statement,
      exactness: 'unknown',
      locks: null,
      walBytes: null,
      hasReported: false,
      sampled: [],
    });
    this.#transactionOf(statement).kept += 1;
    if (this.#begun === ALL_KEPT + 1)
      for (const entry of [...this.#kept.values()]) if (entry.hasReported) this.#groupIfEnded(entry);
  }

  end(id: number, outcome: Outcome): void {
    const entry = this.#kept.get(id);
    if (!entry) return;
    entry.outcome = outcome;
    this.#followPrepared(entry.statement, outcome.tag);
    if (entry.hasReported) this.#groupIfEnded(entry);
  }

  learnLocks({ statements, exactness, locks, walBytes }: Locks): void {
    for (const [at, { id }] of statements.entries()) {
      const entry = this.#kept.get(id);
      if (!entry) continue;
      entry.exactness = exactness;
      entry.locks = locks;
      entry.walBytes = at === 0 ? walBytes : null;
      entry.hasReported = true;
      this.#groupIfEnded(entry);
    }
  }

  undo(statements: readonly Statement[]): void {
    for (const { id, transaction } of statements) {
      if (!this.#kept.delete(id)) continue;
      const slow = this.#slowest.findIndex(({ statement }) => statement.id === id);
      if (slow !== -1) this.#slowest.splice(slow, 1);
      const own = this.#transactions.get(transaction);
      if (own) own.kept -= 1;
    }
  }

  endTransaction({ transaction, at, outcome }: TransactionEnd): void {
    const entry = this.#transactions.get(transaction);
    if (!entry) return;
    entry.end = { at, outcome };
    this.#releaseIfGrouped(entry);
  }

  /** Returns a statement that is kept by itself. */
  get(id: number): StoredStatement | undefined {
    return this.#kept.get(id);
  }

  /** Returns everything, in the order in which it began. A statement that was sent again is behind those of other sessions. */
  list(): (StoredStatement | RepeatedStatement)[] {
    const repeated = [...this.#transactions.values()].flatMap((each) => each.repeated.list());
    return [...this.#kept.values(), ...repeated, ...this.#repeated.list()].sort(
      (one, other) => one.statement.id - other.statement.id,
    );
  }

  transaction(number: number): StoredTransaction | undefined {
    return this.#transactions.get(number) ?? this.#firstOfGroup.get(number);
  }

  #transactionOf({ transaction, session, startedAt }: Statement): StoredTransaction {
    const known = this.#transactions.get(transaction);
    if (known) return known;
    const entry = { transaction, session, startedAt, kept: 0, repeated: new RepeatedStatements() };
    this.#transactions.set(transaction, entry);
    return entry;
  }

  /** Takes the end of a prepared transaction from the statement that ends it, which may come from any session. */
  #followPrepared({ sql, transaction }: Statement, tag: string | null): void {
    const [gid] = /'(?:[^']|'')*'/.exec(sql) ?? [];
    if (gid === undefined) return;
    const own = this.#transactions.get(transaction);
    if (tag === 'PREPARE TRANSACTION' && own) this.#prepared.set(gid, own);
    if (tag !== 'COMMIT PREPARED' && tag !== 'ROLLBACK PREPARED') return;
    const ended = this.#prepared.get(gid);
    if (ended)
      ended.end = { at: steadyDate(), outcome: tag === 'COMMIT PREPARED' ? 'committed' : 'rolled back' };
    this.#prepared.delete(gid);
  }

  /** Groups a statement if its locks are known, or will never be, unless it is to be kept by itself. */
  #groupIfEnded(entry: StoredStatement): void {
    if (this.#begun <= ALL_KEPT || !isRepeatable(entry)) return;
    const ended = { ...entry, locks: entry.locks ?? (entry.sampled.length > 0 ? entry.sampled : null) };
    const faster = this.#fasterThan(ended);
    if (faster) this.#group(faster);
  }

  /** Puts a statement among the slowest. Returns the one that is not among them any more. */
  #fasterThan(ended: EndedStatement): EndedStatement | undefined {
    const slowest = this.#slowest;
    const isFull = slowest.length >= SLOWEST_KEPT;
    const { durationMs } = ended.outcome;
    if (isFull && durationMs <= (slowest[0]?.outcome.durationMs ?? 0)) return ended;
    const at = slowest.findIndex(({ outcome }) => outcome.durationMs >= durationMs);
    slowest.splice(at === -1 ? slowest.length : at, 0, ended);
    return isFull ? slowest.shift() : undefined;
  }

  #group(ended: EndedStatement): void {
    const { id, transaction } = ended.statement;
    this.#kept.delete(id);
    const own = this.#transactions.get(transaction);
    if (!own) return;
    own.kept -= 1;
    own.repeated.add(ended);
    this.#releaseIfGrouped(own);
  }

  /** Merges the groups of a transaction with those of others, once it has ended and no statement of it is kept by itself. */
  #releaseIfGrouped(own: StoredTransaction): void {
    if (!own.end || own.kept > 0 || this.#begun <= ALL_KEPT) return;
    const { session, end } = own;
    const isFirst = this.#repeated.addAll(own.repeated, `${session} ${end.outcome}`);
    this.#transactions.delete(own.transaction);
    if (isFirst) this.#firstOfGroup.set(own.transaction, own);
  }
}

function isRepeatable(entry: StoredStatement): entry is StoredStatement & EndedStatement {
  const { statement, outcome } = entry;
  if (statement.id <= FIRST_KEPT || !outcome || outcome.error || statement.note) return false;
  return beginsAsData(statement.sql) || beginsAsIncidental(statement.sql);
}
