import type { StatementSection } from '../model/report.ts';
import { firstWord } from '../postgres/sql/normalize.ts';
import { likenessHash } from '../postgres/sql/statement-hashes.ts';
import type { Exactness, Outcome, RelationLock, Statement } from '../proxy/observed.ts';
import { DurationHistogram } from './duration-histogram.ts';

/** A statement that was observed to its end. */
export interface EndedStatement {
  readonly statement: Statement;
  readonly outcome: Outcome;
  readonly exactness: Exactness;
  readonly locks: readonly RelationLock[] | null;
  readonly walBytes: number | null;
}

/** Statements with the same normalised text, as one: rows, time and WAL are those of all together, locks those of any. */
export interface RepeatedStatement extends EndedStatement {
  readonly repeated: NonNullable<StatementSection['repeated']>;
}

/** Beyond this number of groups, statements are grouped by their first word: each text of the command may be another. */
const MAX_GROUPS = 1000;
/** 0.5 MB of a report. An apply refuses statements of further shapes as not rehearsed. */
const MAX_LIKENESSES = 20_000;
const BY_CERTAINTY: readonly Exactness[] = ['exact', 'group', 'sampled', 'unknown'];

/** Collects statements by their normalised text, in memory that does not grow with their number. */
export class RepeatedStatements {
  readonly #groups = new Map<string, Group>();

  add(ended: EndedStatement): void {
    this.#groupOf(ended.statement.shape, ended, false).add(ended);
  }

  /**
   * Adds all groups of another transaction, and returns whether one of them is the first of its kind. `scope` keeps apart what must
   * not become one group: sessions, outcomes.
   */
  addAll(others: RepeatedStatements, scope: string): boolean {
    const before = this.#groups.size;
    for (const [shape, group] of others.#groups)
      this.#groupOf(`${scope} ${shape}`, group.first, group.isMixed).merge(group);
    return this.#groups.size > before;
  }

  /** Returns one statement for each group. */
  list(): RepeatedStatement[] {
    return [...this.#groups.values()].map((group) => group.summary());
  }

  #groupOf(shape: string, first: EndedStatement, isMixed: boolean): Group {
    const isTooMany = !this.#groups.has(shape) && this.#groups.size >= MAX_GROUPS;
    const key = isTooMany ? firstWord(first.statement.sql) : shape;
    const group = this.#groups.get(key) ?? new Group(first, isMixed || isTooMany);
    this.#groups.set(key, group);
    return group;
  }
}

class Group {
  readonly first: EndedStatement;
  readonly isMixed: boolean;
  readonly #locks = new Map<string, RelationLock>();
  readonly #durations = new DurationHistogram();
  /** Hashes of statements whose shapes differ: an apply compares each with these. */
  readonly #likenesses = new Set<string>();
  #locksKnown = false;
  #exactness: Exactness = 'exact';
  #count = 0;
  #transactions = 1;
  #rows: number | null = null;
  #walBytes: number | null = null;
  #totalMs = 0;
  #minMs = Number.POSITIVE_INFINITY;
  #maxMs = 0;
  #lastIndex = 0;
  #lastStartedAt = new Date(0);

  constructor(first: EndedStatement, isMixed: boolean) {
    this.first = first;
    this.isMixed = isMixed;
  }

  add({ statement, outcome: { durationMs, rows }, exactness, locks, walBytes }: EndedStatement): void {
    this.#addFigures({ count: 1, rows, walBytes, totalMs: durationMs, minMs: durationMs, maxMs: durationMs });
    this.#durations.add(durationMs);
    this.#addLocks(locks, exactness);
    if (this.isMixed) this.#addLikeness(likenessHash(statement.sql));
    this.#seen(statement.id, statement.startedAt);
  }

  merge(other: Group): void {
    if (this.first !== other.first) this.#transactions += other.#transactions;
    this.#addFigures({
      count: other.#count,
      rows: other.#rows,
      walBytes: other.#walBytes,
      totalMs: other.#totalMs,
      minMs: other.#minMs,
      maxMs: other.#maxMs,
    });
    this.#durations.merge(other.#durations);
    this.#addLocks(other.#locksKnown ? [...other.#locks.values()] : null, other.#exactness);
    if (this.isMixed) {
      this.#addLikeness(likenessHash(other.first.statement.sql));
      for (const hash of other.#likenesses) this.#addLikeness(hash);
    }
    this.#seen(other.#lastIndex, other.#lastStartedAt);
  }

  summary(): RepeatedStatement {
    const { statement, outcome } = this.first;
    return {
      statement,
      outcome: { ...outcome, rows: this.#rows, durationMs: this.#totalMs },
      exactness: this.#exactness,
      locks: this.#locksKnown ? [...this.#locks.values()] : null,
      walBytes: this.#walBytes,
      repeated: {
        count: this.#count,
        transactions: this.#transactions,
        alike: !this.isMixed,
        ...(this.isMixed ? { likenesses: [...this.#likenesses] } : {}),
        minMs: this.#minMs,
        meanMs: this.#totalMs / this.#count,
        maxMs: this.#maxMs,
        p99Ms: this.#durations.percentile(0.99),
        lastIndex: this.#lastIndex,
        lastStartedAt: this.#lastStartedAt.toISOString(),
      },
    };
  }

  #addFigures(figures: {
    count: number;
    rows: number | null;
    walBytes: number | null;
    totalMs: number;
    minMs: number;
    maxMs: number;
  }): void {
    this.#count += figures.count;
    this.#rows = sum(this.#rows, figures.rows);
    this.#walBytes = sum(this.#walBytes, figures.walBytes);
    this.#totalMs += figures.totalMs;
    this.#minMs = Math.min(this.#minMs, figures.minMs);
    this.#maxMs = Math.max(this.#maxMs, figures.maxMs);
  }

  #addLikeness(hash: string): void {
    if (this.#likenesses.size < MAX_LIKENESSES) this.#likenesses.add(hash);
  }

  #addLocks(locks: readonly RelationLock[] | null, exactness: Exactness): void {
    for (const lock of locks ?? []) this.#locks.set(`${lock.database} ${lock.relation} ${lock.mode}`, lock);
    this.#locksKnown ||= locks !== null;
    if (BY_CERTAINTY.indexOf(exactness) > BY_CERTAINTY.indexOf(this.#exactness)) this.#exactness = exactness;
  }

  #seen(id: number, startedAt: Date): void {
    if (id <= this.#lastIndex) return;
    this.#lastIndex = id;
    this.#lastStartedAt = startedAt;
  }
}

/** null is what was not measured; a sum of it with something else is what is known. */
function sum(one: number | null, other: number | null): number | null {
  return one === null ? other : one + (other ?? 0);
}
