import type { StatementNote } from '../model/report.ts';
import type { TransactionStatus } from '../postgres/protocol/messages.ts';
import { rowsOf } from '../postgres/protocol/messages.ts';
import { changesLocksOfDml } from '../postgres/sql/classify-statement.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';
import type { Exactness, Observed, Outcome, RelationLock, Statement, StatementReading } from './observed.ts';
import type { ProxyState } from './proxy-state.ts';

/**
 * How the locks of a statement are to be learnt.
 * - `read`: once it has ended, with those that ended since the last reading.
 * - `like`: it takes those of the statement of its shape that was observed before.
 * - `control`: it begins or ends a transaction, and takes none.
 */
type Learning = 'read' | 'like' | 'control' | 'sampled';

export interface Running {
  readonly statement: Statement;
  readonly parsed: ParsedStatement | null;
  readonly learning: Learning;
  readonly startedMs: number;
  /** Of the server when it began. */
  readonly walPosition: number | null;
  queued: boolean;
}

/**
 * The statements, transactions and locks of one session.
 *
 * Locks are read at the latest moment before they could change or go: before the next statement that is not of the
 * same run, and before the end of the transaction. A failed statement's locks are gone with it.
 */
export class StatementRecorder {
  readonly #run: ProxyState;
  readonly #repeated: ReturnType<ProxyState['repeatedIn']>;
  readonly #session: number;
  readonly #pid: number;
  readonly #open = new Set<Running>();
  /** Of statements that were undone: those that come in their place get them. */
  #freed: number[] = [];
  /** Ended, and its locks not read. */
  #unread: Running[] = [];
  /** Shapes of DML whose locks were read in this transaction. */
  readonly #shapes = new Set<string>();
  readonly #known = new Set<string>();
  #reading: Promise<void> | undefined;
  #transaction: number | undefined;
  #rolledBack = false;
  #inBlock = false;

  constructor(run: ProxyState, session: number, pid: number, database: string) {
    this.#run = run;
    this.#repeated = run.repeatedIn(database);
    this.#session = session;
    this.#pid = pid;
  }

  /** A BEGIN of the command's own has been answered, and its end not yet. */
  get inBlock(): boolean {
    return this.#inBlock;
  }

  /** Whether a statement need not be observed again, and what the parser said of its like. */
  repeats(shape: string): ParsedStatement | undefined {
    const known = this.#repeated.get(shape);
    return this.#shapes.has(shape) || !this.#inBlock ? known?.parsed : undefined;
  }

  begin(
    sql: string,
    parsed: ParsedStatement | null,
    explicit: boolean,
    learning: Learning,
    note: StatementNote | null = null,
  ): Running {
    this.#transaction ??= this.#run.nextTransaction();
    const statement: Statement = {
      id: this.#freed.shift() ?? this.#run.nextStatement(),
      session: this.#session,
      ...{ sql, note },
      transaction: this.#transaction,
      explicit,
      startedAt: new Date(),
    };
    const { walPosition } = this.#run;
    const running = { statement, parsed, learning, startedMs: performance.now(), walPosition, queued: false };
    this.#open.add(running);
    this.#emit({ type: 'begin', statement });
    return running;
  }

  succeed(running: Running, tag: string | null): void {
    this.tag(tag);
    if (running.parsed?.role === 'end') this.#inBlock = false;
    this.#end(running, { tag, rows: tag === null ? null : rowsOf(tag), error: null });
    this.touched(running);
    if (running.parsed && changesLocksOfDml(running.parsed.node)) this.#repeated.clear();
  }

  fail(running: Running, fields: ReadonlyMap<string, string>): void {
    this.#rolledBack = true;
    this.#end(running, { tag: null, rows: null, error: fields });
    this.#tell([running.statement], running.learning === 'sampled' ? 'sampled' : 'unknown', null);
    this.#forget();
  }

  /** Their transaction was rolled back and will be sent again: what was told of them is void. */
  undo(begun: readonly Running[]): void {
    for (const running of begun) this.#open.delete(running);
    this.#freed = [...begun.map(({ statement }) => statement.id), ...this.#freed];
    if (this.#transaction === undefined) return;
    const statements = begun.map(({ statement }) => statement);
    this.#emit({ type: 'undone', session: this.#session, transaction: this.#transaction, statements });
  }

  /** The transaction's end failed, of a deferred constraint for example. */
  failAtCommit(fields: ReadonlyMap<string, string>): void {
    const sql = '[the end of the implicit transaction]';
    this.fail(this.begin(sql, null, false, 'control', 'implicit end'), fields);
  }

  /** The statement holds its locks now, ended or suspended. */
  touched(running: Running): void {
    if (running.queued) return;
    running.queued = true;
    const { statement, parsed, learning } = running;
    const like = parsed?.shape == null ? undefined : this.#repeated.get(parsed.shape)?.statement;
    if (learning === 'control') this.#tell([statement], 'exact', []);
    else if (learning === 'sampled') this.#tell([statement], 'sampled', null);
    else if (learning === 'like' && like)
      this.#emit({
        type: 'locks',
        statements: [statement],
        exactness: 'group',
        locks: null,
        walBytes: null,
        like,
      });
    else this.#unread.push(running);
  }

  /** A completion's tag, also that of our own COMMIT and ROLLBACK. */
  tag(tag: string | null): void {
    if (tag === 'BEGIN' || tag === 'START TRANSACTION') this.#inBlock = true;
    if (tag === 'COMMIT' || tag === 'ROLLBACK') this.#rolledBack = tag === 'ROLLBACK';
  }

  get hasUnread(): boolean {
    return this.#unread.length > 0;
  }

  /** Reads the locks of what ended since the last reading, and waits for it. */
  async read(): Promise<void> {
    await this.#reading;
    if (this.#unread.length === 0) return;
    this.startReading();
    await this.#reading;
  }

  /** The same without waiting: the client may think meanwhile, and settle() waits before anything else is sent. */
  startReading(): void {
    if (this.#reading || this.#unread.length === 0) return;
    const read = this.#unread;
    this.#unread = [];
    this.#reading = this.#run.look(this.#pid, this.#transaction ?? null).then((reading) => {
      this.#attribute(read, reading);
      this.#reading = undefined;
    });
  }

  /** To be waited for before a statement is sent whose locks will be read. */
  async freshen(): Promise<void> {
    await this.#run.freshen();
  }

  async settle(): Promise<void> {
    await this.#reading;
  }

  /** As the server said it with a ReadyForQuery. */
  status(status: TransactionStatus): void {
    this.#inBlock = status !== 'I';
    if (status === 'I') this.#endTransaction();
  }

  /** The connection to the server is gone. */
  lost(): void {
    this.#rolledBack = true;
    for (const running of [...this.#open]) this.fail(running, LOST);
    this.#endTransaction(true);
  }

  #endTransaction(lost = false): void {
    for (const running of [...this.#open]) {
      // A portal that was never run to its end.
      this.#end(running, { tag: null, rows: null, error: null });
      this.touched(running);
    }
    this.#forget();
    this.#known.clear();
    this.#shapes.clear();
    if (this.#transaction === undefined) return;
    this.#emit({
      type: 'transaction-end',
      session: this.#session,
      transaction: this.#transaction,
      at: new Date(),
      outcome: this.#rolledBack ? 'rolled back' : 'committed',
      lost,
    });
    this.#transaction = undefined;
    this.#rolledBack = false;
  }

  /** The locks of what was not read are gone. */
  #forget(): void {
    const lost = this.#unread.map(({ statement }) => statement);
    this.#unread = [];
    if (lost.length > 0) this.#tell(lost, 'unknown', null);
  }

  #attribute(read: readonly Running[], reading: StatementReading | null): void {
    const statements = read.map(({ statement }) => statement);
    if (!reading) {
      this.#tell(statements, 'unknown', null);
      return;
    }
    const { locks: held, walPosition } = reading;
    const from = read[0]?.walPosition ?? null;
    const walBytes = from === null || walPosition === null ? null : Math.max(0, walPosition - from);
    const gained = held.filter((lock) => !this.#known.has(keyOf(lock)));
    this.#known.clear();
    for (const lock of held) this.#known.add(keyOf(lock));
    this.#tell(statements, read.length === 1 ? 'exact' : 'group', gained, walBytes);
    for (const { parsed, statement } of read) {
      if (parsed?.shape == null) continue;
      this.#shapes.add(parsed.shape);
      this.#run.keepShape(this.#repeated, parsed.shape, statement, parsed);
    }
  }

  #end(running: Running, outcome: Omit<Outcome, 'durationMs'>): void {
    if (!this.#open.delete(running)) return;
    const durationMs = performance.now() - running.startedMs;
    this.#emit({ type: 'end', statement: running.statement, outcome: { ...outcome, durationMs } });
  }

  #tell(
    statements: readonly Statement[],
    exactness: Exactness,
    locks: readonly RelationLock[] | null,
    walBytes: number | null = null,
  ): void {
    this.#emit({ type: 'locks', statements, exactness, locks, walBytes });
  }

  #emit(event: Observed): void {
    this.#run.observer(event);
  }
}

const LOST: ReadonlyMap<string, string> = new Map([
  ['C', '08006'],
  ['M', 'the connection was lost while the statement ran'],
]);

function keyOf({ database, relation, mode }: RelationLock): string {
  return `${database}/${relation}/${mode}`;
}
