import { steadyDate, steadyDateAt } from '../clock.ts';
import { rowsOf, type TransactionStatus } from '../postgres/protocol/messages.ts';
import { changesLocksOfDml, fieldsIf, isRollbackTo } from '../postgres/sql/classify-statement.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';
import type { BegunStatement, LockSource, StatementStart } from './begun-statement.ts';
import { LockLedger } from './lock-ledger.ts';
import type { Observed, Outcome, Statement } from './observed.ts';
import type { KnownDml, ProxyState } from './proxy-state.ts';

const CONNECTION_LOST: ReadonlyMap<string, string> = new Map([
  ['C', '08006'],
  ['M', 'the connection was lost while the statement ran'],
]);

/**
 * The transaction of one session, with its statements and their locks: the one place that knows in which state the
 * session is. It sends nothing; whoever sends and receives notifies it, and it reports to the observer.
 *
 * The session's states, by the server's last ReadyForQuery and what was sent since:
 *
 *   idle       status I, and nothing sent since. The next statement begins a transaction.
 *   in block   status T or E: inside the command's BEGIN … COMMIT, or our own around a part of its text.
 *   unsynced   extended messages were sent without a Sync: an implicit transaction is open until then.
 *   skipping   an error came in the meantime: the server ignores everything up to the Sync.
 *
 *   extendedSent       any → unsynced, unless skipping
 *   synced             unsynced, skipping → the state of the last ReadyForQuery (a Sync or Query was sent)
 *   failedUnsynced     unsynced → skipping
 *   ready              the server's status; with I the transaction ends, and what is not known of its locks never will be
 *   lost               every running statement fails, and the transaction ends
 *
 * A statement's states:
 *
 *   begun      begin(): the observer hears of it, and from the first one on of its transaction.
 *   ended      succeed(): its locks are read at the latest moment before they could change or go (lock-ledger.ts).
 *   failed     fail(): its locks are gone with it, and so are those of the statements that were not read.
 *   undone     undo(): rolled back without the client's knowledge. It begins again with the same number.
 */
export class SessionTransaction {
  readonly locks: LockLedger;
  /** DML that the gate let through since the last statement that may change what it means. */
  readonly dml: KnownDml;
  readonly #state: ProxyState;
  readonly #session: number;
  readonly #pid: number;
  readonly #running = new Set<BegunStatement>();
  /** Ids of statements that were undone: those that take their place get them. */
  #freedIds: number[] = [];
  /** The transaction's number; undefined before its first statement. */
  #number: number | undefined;
  #outcome: Extract<Observed, { type: 'transaction-end' }>['outcome'] = 'committed';
  #inBlock = false;
  #status: TransactionStatus = 'I';
  #unsynced = false;
  #skipping = false;
  #undoneMs = 0;

  constructor(state: ProxyState, session: number, pid: number, database: string) {
    this.#state = state;
    this.#session = session;
    this.#pid = pid;
    this.dml = state.knownDml(database);
    this.locks = new LockLedger(state, pid, this.dml);
  }

  /** The status of the last ReadyForQuery. */
  get status(): TransactionStatus {
    return this.#status;
  }

  get inBlock(): boolean {
    return this.#inBlock;
  }

  /** The server worked on undone statements for so long. */
  get undoneMs(): number {
    return this.#undoneMs;
  }

  get unsynced(): boolean {
    return this.#unsynced;
  }

  get skipping(): boolean {
    return this.#skipping;
  }

  /** The next statement begins a transaction, as far as the server has answered. */
  get idle(): boolean {
    return this.#status === 'I' && !this.#unsynced && !this.#skipping;
  }

  extendedSent(): void {
    this.#unsynced = true;
  }

  synced(): void {
    this.#unsynced = false;
    this.#skipping = false;
  }

  failedUnsynced(): void {
    this.#skipping = true;
  }

  ready(status: TransactionStatus): void {
    this.#status = status;
    this.#inBlock = status !== 'I';
    if (status === 'I') this.#end(false);
  }

  lost(): void {
    this.#outcome = 'rolled back';
    for (const begun of [...this.#running]) this.fail(begun, CONNECTION_LOST);
    this.#end(true);
  }

  /** @returns what the parser said of a statement that was observed with this normalised text, and need not be again. */
  repetition(normalised: string | null | undefined): ParsedStatement | undefined {
    return normalised == null ? undefined : this.locks.observed(normalised, this.#inBlock);
  }

  /** @param atMs when the server began to work on it, by performance.now(). */
  begin({ sql, note, parsed, values, sent, preparation }: StatementStart, atMs: number): BegunStatement {
    this.#number ??= this.#state.nextTransaction();
    const isControl = parsed !== null && parsed.role !== 'ordinary';
    const explicit = sent !== 'wrapped' && (this.#inBlock || isControl);
    const statement: Statement = {
      id: this.#freedIds.shift() ?? this.#state.nextStatement(),
      session: this.#session,
      pid: this.#pid,
      sql,
      note: note ?? null,
      shape: parsed?.shape ?? sql,
      transaction: this.#number,
      explicit,
      values,
      startedAt: steadyDateAt(atMs),
    };
    const begun: BegunStatement = {
      statement,
      parsed,
      lockSource: this.#lockSource({ parsed, sent }, explicit),
      walPosition: this.#state.walPosition,
      durationMs: preparation?.ms ?? 0,
      preparedMs: preparation?.ms ?? 0,
      fetchedRows: 0,
      inLedger: false,
      warnings: [],
    };
    if (preparation) preparation.ms = 0;
    this.#running.add(begun);
    this.#emit({ type: 'begin', statement });
    return begun;
  }

  succeed(begun: BegunStatement, tag: string | null): void {
    this.completed(tag);
    if (begun.parsed?.role === 'end') this.#inBlock = false;
    const rows = tag === null ? null : rowsOf(tag);
    this.#endStatement(begun, { tag, rows: rows === null ? null : rows + begun.fetchedRows, error: null });
    this.holdsLocks(begun);
    if (begun.parsed && changesLocksOfDml(begun.parsed.node)) this.dml.clear();
  }

  fail(begun: BegunStatement, fields: ReadonlyMap<string, string>): void {
    this.#outcome = 'rolled back';
    this.#endStatement(begun, { tag: null, rows: null, error: fields });
    this.locks.failed(begun);
  }

  /** The statement holds its locks now, ended or suspended. */
  holdsLocks(begun: BegunStatement): void {
    this.locks.add(begun);
  }

  undo(statements: readonly BegunStatement[]): void {
    for (const begun of statements) {
      this.#running.delete(begun);
      this.#undoneMs += begun.durationMs;
    }
    this.locks.drop(statements);
    this.#freedIds = [...statements.map(({ statement }) => statement.id), ...this.#freedIds];
    if (this.#number === undefined) return;
    this.#emit({
      type: 'undone',
      session: this.#session,
      transaction: this.#number,
      statements: statements.map(({ statement }) => statement),
    });
  }

  /** A completion came, which may be that of our own COMMIT or ROLLBACK. */
  completed(tag: string | null): void {
    if (tag === 'BEGIN' || tag === 'START TRANSACTION') this.#inBlock = true;
    if (tag === 'COMMIT') this.#outcome = 'committed';
    if (tag === 'ROLLBACK') this.#outcome = 'rolled back';
    if (tag === 'PREPARE TRANSACTION') this.#outcome = 'prepared';
  }

  /** A statement failed before it began: while it was parsed, planned or described, for so long. */
  failPreparing(start: StatementStart, fields: ReadonlyMap<string, string>, ms: number): void {
    const begun = this.begin(start, performance.now() - ms);
    begun.durationMs += ms;
    this.fail(begun, fields);
  }

  /** The transaction's end failed after so long, because of a deferred constraint for example. */
  failAtEnd(fields: ReadonlyMap<string, string>, ms: number): void {
    const sql = '[the end of the implicit transaction]';
    this.failPreparing({ sql, note: 'implicit end', parsed: null, sent: 'wrapped' }, fields, ms);
  }

  /** Reads the locks of what has ended since the last reading, and waits for them. */
  async readLocks(): Promise<void> {
    await this.locks.read(this.#number ?? null);
  }

  /** The same without waiting: the client may think in the meantime, and `locks.settled()` waits before anything is sent. */
  startReadingLocks(): void {
    if (this.#inBlock && this.locks.mayWait(undefined)) return;
    this.locks.startReading(this.#number ?? null);
  }

  /** To be awaited before a statement is sent whose locks will be read: WAL written before it is not its own. */
  async refreshWalPosition(next?: ParsedStatement): Promise<void> {
    if (this.#inBlock && this.locks.mayWait(next?.lockKind ?? null)) return;
    await this.#state.refreshWalPosition();
  }

  #lockSource({ parsed, sent }: Omit<StatementStart, 'sql'>, explicit: boolean): LockSource {
    if (sent === 'together') return 'sampled';
    // ROLLBACK TO releases locks, and what is known of them must be read again.
    if (parsed !== null && parsed.role !== 'ordinary') return isRollbackTo(parsed.node) ? 'read' : 'none';
    if (sent === 'through') return 'sampled';
    if (sent === 'wrapped' || explicit) return 'read';
    if (this.repetition(parsed?.shape)) return 'like';
    // What commits within itself has no lock at its end; without BEGIN, ANALYZE does so for a partitioned table.
    if (parsed !== null && fieldsIf(parsed.node, 'VacuumStmt')) return 'sampled';
    return parsed === null || parsed.wraps ? 'read' : 'sampled';
  }

  #end(lost: boolean): void {
    // Portals that were never run to their end.
    for (const begun of [...this.#running]) {
      this.#endStatement(begun, { tag: null, rows: null, error: null });
      this.holdsLocks(begun);
    }
    this.locks.transactionEnded();
    if (this.#number === undefined) return;
    this.#emit({
      type: 'transaction-end',
      session: this.#session,
      transaction: this.#number,
      at: steadyDate(),
      outcome: this.#outcome,
      lost,
    });
    this.#number = undefined;
    this.#outcome = 'committed';
  }

  #endStatement(begun: BegunStatement, outcome: Pick<Outcome, 'tag' | 'rows' | 'error'>): void {
    if (!this.#running.delete(begun)) return;
    const { durationMs, preparedMs, warnings } = begun;
    const { tag, rows, error } = outcome;
    const ended: Outcome = {
      tag,
      rows,
      error,
      durationMs,
      ...(preparedMs > 0 && { preparedMs }),
      ...(warnings.length > 0 && { warnings }),
    };
    this.#emit({ type: 'end', statement: begun.statement, outcome: ended });
  }

  #emit(event: Observed): void {
    this.#state.observer(event);
  }
}
