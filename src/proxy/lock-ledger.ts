import type { ParsedStatement } from '../postgres/sql/parse.ts';
import type { BegunStatement } from './begun-statement.ts';
import type { Exactness, RelationLock, Statement, StatementReading } from './observed.ts';
import type { KnownDml, ProxyState } from './proxy-state.ts';

/** The locks of what takes longer are read after it, which costs little beside it. */
const QUICK_MS = 20;
const MANY_UNREAD = 1000;

/**
 * The locks of a session's statements: which are known, and which are still to be read.
 *
 * Locks are read at the latest moment before they could change or go: before the next statement that is no repetition, and
 * before the end of the transaction. What a reading shows beyond the one before it was added by the statements between them.
 */
export class LockLedger {
  readonly #state: ProxyState;
  readonly #pid: number;
  /** DML that is known in this session's database. */
  readonly #dml: KnownDml;
  /** Normalised texts of DML whose locks were read in this transaction. */
  readonly #readInTransaction = new Set<string>();
  /** Kinds of quick statements whose locks were read in this transaction. */
  readonly #kindsRead = new Set<string>();
  /** Locks of the transaction as of the last reading. */
  readonly #known = new Set<string>();
  /** Statements that have ended or are suspended, and whose locks were not read. */
  #unread: BegunStatement[] = [];
  /** The transaction has locks of statements that are not observed: they must not be taken for those of the next one. */
  #holdsOthers = false;
  #reading: Promise<void> | undefined;

  constructor(state: ProxyState, pid: number, dml: KnownDml) {
    this.#state = state;
    this.#pid = pid;
    this.#dml = dml;
  }

  /** So many statements wait for a reading that it is due, whatever they are: each takes memory. */
  get hasManyUnread(): boolean {
    return this.#unread.length >= MANY_UNREAD;
  }

  get hasUnread(): boolean {
    return this.#unread.length > 0 || this.#holdsOthers;
  }

  /**
   * Tells whether the locks of what has ended need not be read yet, nor before a statement of this kind: all of it was quick, and
   * the locks of its like were read in this transaction. The next reading tells whether any of it took more. Without this, the proxy
   * and its client take 1.43 times the processor time for 5,000 queries in one transaction.
   */
  mayWait(next: string | null | undefined): boolean {
    if (
      this.#holdsOthers ||
      this.hasManyUnread ||
      next === null ||
      (next !== undefined && !this.#kindsRead.has(next))
    )
      return false;
    return this.#unread.every(
      ({ parsed, durationMs }) =>
        parsed?.lockKind != null && this.#kindsRead.has(parsed.lockKind) && durationMs < QUICK_MS,
    );
  }

  /** @returns the like of a statement, if its locks count for this one as well: in a block those of the block only. */
  observed(normalised: string, inBlock: boolean): ParsedStatement | undefined {
    if (inBlock && !this.#readInTransaction.has(normalised)) return undefined;
    const like = this.#dml.get(normalised);
    return like?.locks ? like.parsed : undefined;
  }

  add(begun: BegunStatement): void {
    if (begun.inLedger) return;
    begun.inLedger = true;
    const { statement, parsed, lockSource } = begun;
    const known = parsed?.shape == null ? null : this.#dml.get(parsed.shape)?.locks;
    if (lockSource === 'none') this.#report([statement], 'exact', []);
    else if (lockSource === 'sampled') {
      this.#report([statement], 'sampled', null);
      this.#holdsOthers = true;
    } else if (lockSource === 'like' && known) {
      this.#report([statement], 'group', known);
      // Others may follow in the same implicit transaction.
      for (const lock of known) this.#known.add(keyOf(lock));
    } else this.#unread.push(begun);
  }

  /** Its locks are gone, and those of everything unread. Of one that was suspended before they may have been read. */
  failed({ statement, lockSource, inLedger }: BegunStatement): void {
    if (!inLedger) this.#report([statement], lockSource === 'sampled' ? 'sampled' : 'unknown', null);
    this.#giveUpUnread();
  }

  /** The statements are void. */
  drop(statements: readonly BegunStatement[]): void {
    this.#unread = this.#unread.filter((begun) => !statements.includes(begun));
  }

  transactionEnded(): void {
    this.#giveUpUnread();
    this.#holdsOthers = false;
    this.#known.clear();
    this.#kindsRead.clear();
    this.#readInTransaction.clear();
  }

  /** Reads what is unread, and waits for it. */
  async read(transaction: number | null): Promise<void> {
    await this.#reading;
    this.startReading(transaction);
    await this.#reading;
  }

  startReading(transaction: number | null): void {
    if (this.#reading || !this.hasUnread) return;
    const statements = this.#unread;
    this.#unread = [];
    this.#holdsOthers = false;
    this.#reading = this.#readFor(statements, transaction);
  }

  /** Waits for a reading that is under way. Never rejects. */
  async settled(): Promise<void> {
    await this.#reading;
  }

  async #readFor(statements: readonly BegunStatement[], transaction: number | null): Promise<void> {
    this.#attribute(statements, await this.#state.readLocks(this.#pid, transaction));
    this.#reading = undefined;
  }

  #attribute(begun: readonly BegunStatement[], reading: StatementReading | null): void {
    const statements = begun.map(({ statement }) => statement);
    if (!reading) {
      if (statements.length > 0) this.#report(statements, 'unknown', null);
      return;
    }
    const from = begun[0]?.walPosition ?? null;
    const to = reading.walPosition;
    const walBytes = from === null || to === null ? null : Math.max(0, to - from);
    const added = reading.locks.filter((lock) => !this.#known.has(keyOf(lock)));
    this.#known.clear();
    for (const lock of reading.locks) this.#known.add(keyOf(lock));
    if (statements.length > 0)
      this.#report(statements, statements.length === 1 ? 'exact' : 'group', added, walBytes);
    for (const { parsed } of begun) {
      if (parsed?.lockKind != null) this.#kindsRead.add(parsed.lockKind);
      if (parsed?.shape == null) continue;
      this.#readInTransaction.add(parsed.shape);
      this.#state.keepDml(this.#dml, parsed.shape, { parsed, locks: added });
    }
  }

  #giveUpUnread(): void {
    const statements = this.#unread.map(({ statement }) => statement);
    this.#unread = [];
    if (statements.length > 0) this.#report(statements, 'unknown', null);
  }

  #report(
    statements: readonly Statement[],
    exactness: Exactness,
    locks: readonly RelationLock[] | null,
    walBytes: number | null = null,
  ): void {
    this.#state.observer({ type: 'locks', statements, exactness, locks, walBytes });
  }
}

function keyOf({ database, relation, mode }: RelationLock): string {
  return `${database}/${relation}/${mode}`;
}
