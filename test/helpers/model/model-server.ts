import {
  bindMessage,
  CLIENT,
  closeMessage,
  encodeMessage,
  errorResponse,
  executeMessage,
  int32,
  parameterStatusMessage,
  parseMessage,
  queryText,
  SERVER,
} from '../../../src/postgres/protocol/messages.ts';
import type { RelationLock } from '../../../src/proxy/observed.ts';

/** An error of the model's, with its SQLSTATE. */
class ServerError extends Error {
  readonly frame: Buffer;

  constructor(sqlstate: string, frame?: Buffer) {
    super(sqlstate);
    this.frame = frame ?? errorResponse({ sqlstate, message: `error ${sqlstate}` });
  }
}

/** One statement that the model has run. */
export interface Ran {
  readonly sql: string;
  /** The command tag; null for an empty statement and for one that failed. */
  readonly tag: string | null;
  readonly error: string | null;
  /** The locks that it added to those of its transaction. */
  readonly added: readonly string[];
}

interface Transaction {
  effects: string[];
  locks: Set<string>;
  name: string;
  fails: boolean;
  savepoints: { effects: number; locks: Set<string>; name: string }[];
  executed: boolean;
}

interface Portal {
  readonly sql: string;
  rowsLeft: number;
  done: boolean;
}

type Message = { readonly type: number; readonly bytes: Buffer };

/** The frame for a statement that a gate refuses, if the model stands for the proxy and its gate as well. */
export const REFUSAL = { sqlstate: '42501', message: 'not in this test' };
export const REFUSED_SQL = 'select refused()';
const ROWS = 3;
const EXITS: ReadonlySet<string> = new Set(['commit', 'rollback', 'rollback to s']);
const CONTROL: ReadonlySet<string> = new Set([...EXITS, 'begin', 'savepoint s']);
const LOCKS: Readonly<Record<string, readonly string[]>> = {
  'select 1': ['s/AccessShareLock'],
  'insert into t values (1)': ['t/RowExclusiveLock'],
  'insert into t values (2)': ['t/RowExclusiveLock'],
  'insert into u values (1)': ['u/RowExclusiveLock'],
  'insert into late values (1)': ['late/RowExclusiveLock'],
  'create table a ()': ['a/AccessExclusiveLock'],
  'alter table a add c int': ['a/AccessExclusiveLock'],
  'copy t from stdin': ['t/RowExclusiveLock'],
  'copy t to stdout': ['t/AccessShareLock'],
};
const TAGS: Readonly<Record<string, string>> = {
  'create table a ()': 'CREATE TABLE',
  'alter table a add c int': 'ALTER TABLE',
  vacuum: 'VACUUM',
  'reindex table p': 'REINDEX',
  "set application_name = 'x'": 'SET',
  "set application_name = 'y'": 'SET',
};

/**
 * One session of a server that behaves as PostgreSQL's documentation of the protocol says, for a dozen statements: blocks, implicit
 * transactions, skipping up to a Sync, portals, COPY, cancels. It keeps its answers back until PostgreSQL would flush them.
 */
export class ModelServer {
  /** Sends something to its client; set by whoever connects it. */
  onSent: (bytes: Buffer) => void = () => {};
  onClosed: () => void = () => {};
  readonly ran: Ran[] = [];
  /** What was committed, in order. */
  readonly committed: string[] = [];
  /** Something happened that an observer sees in another form than the server: a failed commit, an unknown portal, … */
  odd = false;
  closed = false;
  readonly #refuses: boolean;
  #input: Buffer = Buffer.alloc(0);
  readonly #queue: Message[] = [];
  #output: Buffer[] = [];
  #waitsFor: 'message' | 'cancel' = 'message';
  #block: 'none' | 'implicit' | 'explicit' | 'failed' = 'none';
  #ending: 'commit' | 'rollback' | undefined;
  #transaction: Transaction | undefined;
  #isOwn = false;
  #name = '';
  #reportedName = '';
  #skipping = false;
  readonly #statements = new Map<string, string>();
  readonly #portals = new Map<string, Portal>();
  readonly #main = this.#serve();

  /** @param refuses the statement that the gate of these tests refuses. */
  constructor(refuses: boolean) {
    this.#refuses = refuses;
    this.#main.next();
  }

  /** A statement runs until it is cancelled. */
  get sleeps(): boolean {
    return this.#waitsFor === 'cancel';
  }

  get locks(): RelationLock[] {
    return [...(this.#transaction?.locks ?? [])].map((lock) => {
      const [relation = '', mode = ''] = lock.split('/');
      return { database: 1, relation: relation.charCodeAt(0), mode };
    });
  }

  receive(chunk: Buffer): void {
    this.#input = Buffer.concat([this.#input, chunk]);
    while (this.#input.length >= 5) {
      const size = this.#input.readUInt32BE(1) + 1;
      if (this.#input.length < size) break;
      this.#queue.push({ type: this.#input[0] ?? 0, bytes: this.#input.subarray(0, size) });
      this.#input = this.#input.subarray(size);
    }
    while (!this.closed && this.#waitsFor === 'message' && this.#queue.length > 0) this.#main.next();
  }

  cancel(): void {
    if (!this.sleeps) return;
    this.#main.next();
    this.receive(Buffer.alloc(0));
  }

  *#next(): Generator<void, Message> {
    while (this.#queue.length === 0) yield;
    return this.#queue.shift() as Message;
  }

  *#serve(): Generator<void, void> {
    yield;
    for (;;) {
      const { type, bytes } = yield* this.#next();
      if (type === CLIENT.terminate) break;
      if (this.#skipping && type !== CLIENT.sync) continue;
      if (type === CLIENT.query) yield* this.#query(queryText(bytes).toString());
      else if (type === CLIENT.functionCall) this.#call();
      else yield* this.#extended(type, bytes);
    }
    this.closed = true;
    this.onClosed();
  }

  *#query(sent: string): Generator<void, void> {
    // The proxy's own statements are written in capital letters, and not logged.
    this.#isOwn = sent !== '' && sent === sent.toUpperCase() && sent !== sent.toLowerCase();
    const text = this.#isOwn ? sent.toLowerCase() : sent;
    const parts = text
      .split(';')
      .map((part) => part.trim())
      .filter((part) => part !== '');
    try {
      this.#requireReadable(text, parts);
      if (parts.length === 0) {
        this.#finish();
        this.#log('', null, null);
        this.#send(encodeMessage(SERVER.emptyQuery));
      }
      for (const [index, part] of parts.entries())
        yield* this.#part(part, parts.length > 1, index === parts.length - 1);
    } catch (error) {
      this.#fail(error);
    }
    this.#isOwn = false;
    this.#ready();
  }

  #requireReadable(text: string, parts: readonly string[]): void {
    const wrong =
      parts.includes('selec') || text.startsWith('refused') ? new ServerError('42601') : undefined;
    const isRefused = this.#refuses && !wrong && parts.includes(REFUSED_SQL);
    const error = isRefused ? new ServerError(REFUSAL.sqlstate, errorResponse(REFUSAL)) : wrong;
    if (!error) return;
    this.#log(text.trim(), null, error.message);
    throw error;
  }

  *#part(sql: string, many: boolean, isLast: boolean): Generator<void, void> {
    let tag: string;
    const before = new Set(this.#transaction?.locks);
    try {
      this.#start(sql);
      if (many && this.#block === 'none') this.#block = 'implicit';
      if (sql.startsWith('select')) this.#send(encodeMessage(0x54, Buffer.from([0, 0])));
      tag = yield* this.#run(sql);
      const added = [...(this.#transaction?.locks ?? [])].filter((lock) => !before.has(lock));
      if (isLast && this.#block === 'implicit') this.#block = 'none';
      if (isLast || CONTROL.has(sql)) this.#finish();
      this.#log(sql, tag, null, added);
    } catch (error) {
      if (error instanceof ServerError) this.#log(sql, null, error.message);
      throw error;
    }
    this.#complete(tag);
  }

  #call(): void {
    try {
      this.#start('');
      this.#send(encodeMessage(SERVER.functionCallResponse, int32(0xffff_ffff)));
      this.#finish();
      this.#log('[a call of the function with OID 1]', null, null);
    } catch (error) {
      this.odd = true;
      this.#fail(error);
    }
    this.#ready();
  }

  *#extended(type: number, bytes: Buffer): Generator<void, void> {
    try {
      if (type === CLIENT.parse) this.#parse(bytes);
      else if (type === CLIENT.bind) this.#bind(bytes);
      else if (type === CLIENT.describe) this.#describe(bytes);
      else if (type === CLIENT.execute) yield* this.#execute(bytes);
      else if (type === CLIENT.close) {
        const { kind, name } = closeMessage(bytes);
        (kind === 'statement' ? this.#statements : this.#portals).delete(name);
        this.#send(encodeMessage(0x33));
      } else if (type === CLIENT.flush) this.#flush();
      else if (type === CLIENT.sync) {
        this.#skipping = false;
        this.#finish();
      }
    } catch (error) {
      this.#fail(error);
      this.#skipping = type !== CLIENT.sync;
    }
    if (type === CLIENT.sync) this.#ready();
  }

  #parse(bytes: Buffer): void {
    const { name, text } = parseMessage(bytes);
    const sql = text.toString();
    const error = this.#parseError(name, sql);
    if (error !== undefined) {
      this.#log(sql, null, error);
      throw new ServerError(error);
    }
    this.#transaction ??= this.#begun();
    this.#statements.set(name, sql);
    this.#send(encodeMessage(0x31));
  }

  #parseError(name: string, sql: string): string | undefined {
    if (sql === 'selec' || sql.startsWith('refused') || sql.includes(';')) return '42601';
    if (this.#block === 'failed' && !EXITS.has(sql)) return '25P02';
    if (name !== '' && this.#statements.has(name)) return '42P05';
    return undefined;
  }

  #bind(bytes: Buffer): void {
    const { portal, statement } = bindMessage(bytes);
    const sql = this.#statements.get(statement);
    if (sql === undefined) this.#throwOdd('26000');
    if (this.#block === 'failed' && !EXITS.has(sql)) this.#throwOdd('25P02');
    if (portal !== '' && this.#portals.has(portal)) this.#throwOdd('42P03');
    this.#transaction ??= this.#begun();
    this.#portals.set(portal, { sql, rowsLeft: ROWS, done: false });
    this.#send(encodeMessage(0x32));
  }

  #describe(bytes: Buffer): void {
    const { kind, name } = closeMessage(bytes);
    const sql = kind === 'statement' ? this.#statements.get(name) : this.#portals.get(name)?.sql;
    if (sql === undefined) this.#throwOdd(kind === 'statement' ? '26000' : '34000');
    const returnsRows = sql.startsWith('select');
    if (this.#block === 'failed' && returnsRows) this.#throwOdd('25P02');
    if (kind === 'statement') this.#send(encodeMessage(0x74, Buffer.from([0, 0])));
    this.#send(returnsRows ? encodeMessage(0x54, Buffer.from([0, 0])) : encodeMessage(0x6e));
  }

  *#execute(bytes: Buffer): Generator<void, void> {
    const { portal: name, limit: most } = executeMessage(bytes);
    const portal = this.#portals.get(name);
    if (!portal) this.#throwOdd('34000');
    const { sql } = portal;
    const before = new Set(this.#transaction?.locks);
    try {
      if (this.#refuses && sql === REFUSED_SQL)
        throw new ServerError(REFUSAL.sqlstate, errorResponse(REFUSAL));
      if (sql === '') {
        this.#log(sql, null, null);
        this.#send(encodeMessage(SERVER.emptyQuery));
        return;
      }
      this.#start(sql);
      if (portal.done && !sql.startsWith('select')) {
        this.odd = true;
        throw new ServerError('55000');
      }
      const isQuery = sql.startsWith('select') && sql !== 'select 1/0' && sql !== 'select pg_sleep(9)';
      const tag = isQuery ? this.#fetch(portal, most) : yield* this.#run(sql);
      portal.done = true;
      const added = [...(this.#transaction?.locks ?? [])].filter((lock) => !before.has(lock));
      if (CONTROL.has(sql)) this.#finish();
      else if (this.#transaction) this.#transaction.executed = true;
      if (tag === undefined) this.odd = true;
      else this.#log(sql, tag, null, added);
      if (tag !== undefined) this.#complete(tag);
    } catch (error) {
      if (error instanceof ServerError) this.#log(sql, null, error.message);
      throw error;
    }
  }

  /** @returns the tag, or undefined if the portal is suspended. */
  #fetch(portal: Portal, most: number): string | undefined {
    for (const lock of LOCKS[portal.sql] ?? []) this.#transaction?.locks.add(lock);
    const count = most === 0 ? portal.rowsLeft : Math.min(most, portal.rowsLeft);
    for (let row = 0; row < count; row++) this.#send(encodeMessage(0x44, Buffer.from([0, 0])));
    portal.rowsLeft -= count;
    if (most === 0 || count < most) return `SELECT ${count}`;
    this.#send(encodeMessage(SERVER.portalSuspended));
    return undefined;
  }

  #start(sql: string): void {
    if (this.#block === 'failed' && !EXITS.has(sql)) throw new ServerError('25P02');
    this.#transaction ??= this.#begun();
  }

  #begun(): Transaction {
    return { effects: [], locks: new Set(), name: this.#name, fails: false, savepoints: [], executed: false };
  }

  *#run(sql: string): Generator<void, string> {
    const transaction = this.#transaction ?? this.#begun();
    if (CONTROL.has(sql)) return this.#control(sql, transaction);
    if (sql === 'vacuum' || sql === 'reindex table p') {
      if (this.#block !== 'none' || transaction.executed) throw new ServerError('25001');
      this.committed.push(sql);
      return TAGS[sql] ?? '';
    }
    for (const lock of LOCKS[sql] ?? []) transaction.locks.add(lock);
    if (sql === 'select 1/0') throw new ServerError('22012');
    if (sql === 'select pg_sleep(9)') yield* this.#sleep();
    if (sql === 'copy t from stdin') return yield* this.#copyIn(transaction);
    if (sql === 'copy t to stdout') return this.#copyOut();
    if (sql.startsWith('select')) {
      for (let row = 0; row < ROWS; row++) this.#send(encodeMessage(0x44, Buffer.from([0, 0])));
      return `SELECT ${ROWS}`;
    }
    if (sql.startsWith('set')) this.#name = sql.slice(-2, -1);
    if (sql.startsWith('create')) this.#notice();
    if (sql.includes('late')) transaction.fails = true;
    transaction.effects.push(sql);
    return TAGS[sql] ?? 'INSERT 0 1';
  }

  *#sleep(): Generator<void, never> {
    this.#waitsFor = 'cancel';
    yield;
    this.#waitsFor = 'message';
    throw new ServerError('57014');
  }

  #control(sql: string, transaction: Transaction): string {
    switch (sql) {
      case 'begin':
        if (this.#block === 'explicit') this.#notice();
        this.#block = 'explicit';
        return 'BEGIN';
      case 'commit':
        if (this.#block === 'failed') {
          this.#ending = 'rollback';
          return 'ROLLBACK';
        }
        if (this.#block !== 'explicit') this.#notice();
        this.#ending = 'commit';
        return 'COMMIT';
      case 'rollback':
        if (this.#block === 'none' || this.#block === 'implicit') this.#notice();
        this.#ending = 'rollback';
        return 'ROLLBACK';
      case 'savepoint s':
        if (this.#block !== 'explicit') throw new ServerError('25P01');
        transaction.savepoints.push({
          effects: transaction.effects.length,
          locks: new Set(transaction.locks),
          name: this.#name,
        });
        return 'SAVEPOINT';
      default:
        return this.#rollbackTo(transaction);
    }
  }

  #rollbackTo(transaction: Transaction): string {
    if (this.#block !== 'explicit' && this.#block !== 'failed') throw new ServerError('25P01');
    const savepoint = transaction.savepoints.at(-1);
    if (!savepoint) throw new ServerError('3B001');
    transaction.effects.length = savepoint.effects;
    transaction.locks = new Set(savepoint.locks);
    transaction.fails = false;
    this.#name = savepoint.name;
    this.#block = 'explicit';
    return 'ROLLBACK';
  }

  *#copyIn(transaction: Transaction): Generator<void, string> {
    this.#send(encodeMessage(SERVER.copyInResponse, Buffer.from([0, 0, 0])));
    this.#flush();
    for (;;) {
      const { type } = yield* this.#next();
      if (type === CLIENT.copyDone) break;
      if (type === CLIENT.copyFail) throw new ServerError('57014');
      const isSkipped = type === 0x64 || type === CLIENT.flush || type === CLIENT.sync;
      if (!isSkipped) throw new ServerError('08P01');
    }
    transaction.effects.push('copy t from stdin');
    return 'COPY 1';
  }

  #copyOut(): string {
    this.#send(encodeMessage(SERVER.copyOutResponse, Buffer.from([0, 0, 0])));
    this.#send(encodeMessage(0x64, 'row\n'));
    this.#send(encodeMessage(0x63));
    return 'COPY 1';
  }

  /** Ends what is to be ended: PostgreSQL's CommitTransactionCommand. */
  #finish(): void {
    const transaction = this.#transaction;
    const ending = this.#ending ?? (this.#block === 'none' ? 'commit' : undefined);
    if (!ending || !transaction) return;
    this.#ending = undefined;
    if (ending === 'rollback') {
      this.#name = transaction.name;
    } else if (transaction.fails) {
      this.odd = true;
      this.#block = 'none';
      throw new ServerError('23503');
    } else this.committed.push(...transaction.effects);
    this.#end();
  }

  #end(): void {
    this.#block = 'none';
    this.#transaction = undefined;
    this.#portals.clear();
  }

  #fail(error: unknown): void {
    if (!(error instanceof ServerError)) throw error;
    this.#ending = undefined;
    const transaction = this.#transaction;
    if (this.#block === 'explicit') {
      this.#block = 'failed';
      if (transaction) {
        const savepoint = transaction.savepoints.at(-1);
        transaction.locks = new Set(savepoint?.locks);
        this.#name = transaction.name;
      }
      this.#portals.clear();
    } else if (this.#block !== 'failed') {
      if (transaction) this.#name = transaction.name;
      this.#end();
    }
    this.#send(error.frame);
    this.#flush();
  }

  #throwOdd(sqlstate: string): never {
    this.odd = true;
    throw new ServerError(sqlstate);
  }

  #notice(): void {
    this.#send(encodeMessage(SERVER.noticeResponse, 'SNOTICE\0C00000\0Mnotice\0\0'));
    this.#flush();
  }

  #complete(tag: string): void {
    this.#send(encodeMessage(SERVER.commandComplete, `${tag}\0`));
  }

  #ready(): void {
    if (this.#name !== this.#reportedName) this.#send(parameterStatusMessage('application_name', this.#name));
    this.#reportedName = this.#name;
    const status = this.#block === 'failed' ? 'E' : this.#block === 'none' ? 'I' : 'T';
    this.#send(encodeMessage(SERVER.readyForQuery, status));
    this.#flush();
  }

  #log(sql: string, tag: string | null, error: string | null, added: readonly string[] = []): void {
    if (!this.#isOwn) this.ran.push({ sql, tag, error, added });
  }

  #send(bytes: Buffer): void {
    this.#output.push(bytes);
  }

  #flush(): void {
    const output = this.#output;
    this.#output = [];
    if (output.length > 0) this.onSent(Buffer.concat(output));
  }
}
