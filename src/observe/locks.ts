import type { Connection } from 'pg';
import { SafemigrateError } from '../errors.ts';
import type { Session } from '../target/session.ts';
import { CLIENT, message, SYNC } from '../wire/messages.ts';
import type { ReadLocks, RelationLock } from '../wire/observed.ts';

/** One row, and no join, because a join would wait for whoever holds pg_class. */
const LOCKS_OF = `SELECT pg_catalog.string_agg(
         pg_catalog.concat_ws(' ', database::pg_catalog.text, relation::pg_catalog.text, mode), E'\\n') AS held
  FROM pg_catalog.pg_lock_status()
 WHERE pid = $1 AND granted AND locktype = 'relation'`;

const INT4_OID = 23;
const PREPARE = message(CLIENT.parse, 'locks\0', LOCKS_OF, '\0', int16s(1), int16s(0, INT4_OID));
/** The one parameter and its format are binary, the result is text. */
const BIND = ['\0', 'locks\0', int16s(1, 1, 1, 0, 4), int16s(0, 0), int16s(0)] as const;
const RUN = Buffer.concat([message(CLIENT.bind, ...BIND), message(CLIENT.execute, '\0', int16s(0, 0)), SYNC]);
const PID_AT = message(CLIENT.bind, ...BIND).length - 6;

/** After a lost connection, the next one is not tried at once: the server may be restarting. */
const RETRY_AFTER_MS = 500;

/**
 * Reads locks over a connection of its own, which must not sit in the database that is observed (DROP DATABASE would
 * fail because of it). Losing it costs the locks of the statements until there is a new one, nothing else.
 */
export class LockReader {
  readonly #connect: () => Promise<Session>;
  #session: Session | undefined;
  /** The session that knows the query by its name. */
  #prepared: Session | undefined;
  /** A session runs one query at a time. */
  #turn: Promise<unknown> = Promise.resolve();
  #connecting: Promise<Session | undefined> | undefined;
  #notBeforeMs = 0;
  #closed = false;

  /** `connect` opens a session in a maintenance database of the observed server. */
  constructor(connect: () => Promise<Session>) {
    this.#connect = connect;
  }

  /** Connects now, so that the first statement need not wait for it. @throws what `connect` throws. */
  async open(): Promise<void> {
    if (!(await this.#connected()))
      throw new SafemigrateError('CONNECTION', 'The connection for reading locks could not be opened.');
  }

  readonly read: ReadLocks = (pid) => {
    const locks = this.#turn.then(() => this.#read(pid));
    this.#turn = locks;
    return locks;
  };

  async close(): Promise<void> {
    this.#closed = true;
    await this.#connecting;
    await this.#session?.close();
  }

  async #read(pid: number): Promise<RelationLock[] | null> {
    const session = await this.#connected();
    if (!session) return null;
    try {
      const query = new LockQuery(pid, this.#prepared !== session);
      session.client.query(query);
      const held = await query.held;
      this.#prepared = session;
      return parseLocks(held);
    } catch {
      this.#lose(session);
      return null;
    }
  }

  async #connected(): Promise<Session | undefined> {
    if (this.#session || this.#closed) return this.#session;
    if (performance.now() < this.#notBeforeMs) return undefined;
    this.#connecting ??= this.#open();
    return await this.#connecting;
  }

  async #open(): Promise<Session | undefined> {
    try {
      const session = await this.#connect();
      session.onLost(() => this.#lose(session));
      this.#session = session;
      return session;
    } catch {
      this.#notBeforeMs = performance.now() + RETRY_AFTER_MS;
      return undefined;
    } finally {
      this.#connecting = undefined;
    }
  }

  #lose(session: Session): void {
    if (this.#session !== session) return;
    this.#session = undefined;
    this.#notBeforeMs = performance.now() + RETRY_AFTER_MS;
    void session.close();
  }
}

/**
 * One reading, in the form in which `pg` takes queries that speak the protocol themselves. It stands between the end of
 * every statement and what the command does next, and pg's own queries send five messages and build what nobody reads.
 */
class LockQuery {
  readonly text = LOCKS_OF;
  readonly values: readonly number[];
  readonly held: Promise<string>;
  readonly handleReadyForQuery: () => void;
  readonly handleError: (error: Error) => void;
  readonly #first: boolean;
  #held = '';

  constructor(pid: number, first: boolean) {
    this.values = [pid];
    this.#first = first;
    let settle: { resolve(held: string): void; reject(error: Error): void } | undefined;
    this.held = new Promise((resolve, reject) => {
      settle = { resolve, reject };
    });
    this.handleReadyForQuery = () => settle?.resolve(this.#held);
    this.handleError = (error) => settle?.reject(error);
  }

  submit({ stream }: Connection): void {
    const run = Buffer.from(RUN);
    run.writeInt32BE(this.values[0] ?? 0, PID_AT);
    stream.write(this.#first ? Buffer.concat([PREPARE, run]) : run);
  }

  handleDataRow({ fields }: { fields: readonly (string | null)[] }): void {
    this.#held = fields[0] ?? '';
  }

  handleCommandComplete(): void {}
}

function int16s(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 2);
  for (const [index, value] of values.entries()) bytes.writeInt16BE(value, index * 2);
  return bytes;
}

function parseLocks(held: string): RelationLock[] {
  return held
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [database, relation, mode] = line.split(' ');
      return { database: Number(database), relation: Number(relation), mode: mode ?? '' };
    });
}
