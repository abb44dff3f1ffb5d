import { SafemigrateError, sqlstateOf } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { ReadLocks, RelationLock, StatementReading } from '../proxy/observed.ts';

/**
 * One row, and no join, because a join would wait for whoever holds pg_class. A backend holds the id of its transaction
 * exclusively; in share mode it waits for somebody else's. Its first line is about the whole server.
 */
const looking = (name: string, nextXid: string, position: string) => ({
  name,
  text: `SELECT pg_catalog.concat_ws(E'\\n',
         pg_catalog.concat_ws(' ', ${nextXid}, ${position}),
         pg_catalog.string_agg(pg_catalog.concat_ws(' ', database::pg_catalog.text, relation::pg_catalog.text,
                               transactionid::pg_catalog.text, mode), E'\\n')) AS seen
  FROM pg_catalog.pg_lock_status()
 WHERE pid = $1 AND granted AND (locktype = 'relation' OR (locktype = 'transactionid' AND mode = 'ExclusiveLock'))`,
});
const LOOK = looking(
  'locks',
  'pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::pg_catalog.text',
  'pg_catalog.pg_current_wal_insert_lsn()::pg_catalog.text',
);
/** Where these functions are not for everybody, locks are. */
const LOCKS_ALONE = looking('locks alone', 'NULL', 'NULL');

/** insufficient_privilege, and object_not_in_prerequisite_state: a standby writes no WAL. */
const NOT_ALLOWED: ReadonlySet<string | undefined> = new Set(['42501', '55000']);

/** After a lost connection, the next one is not tried at once: the server may be restarting. */
const RETRY_AFTER_MS = 500;

/**
 * Reads locks over a connection of its own, which must not sit in the database that is observed (DROP DATABASE would
 * fail because of it). Losing it costs the locks of the statements until there is a new one, nothing else.
 */
export class LockReader {
  readonly #connect: () => Promise<Session>;
  #session: Session | undefined;
  /** A session runs one query at a time. */
  #turn: Promise<unknown> = Promise.resolve();
  #connecting: Promise<Session | undefined> | undefined;
  #query = LOOK;
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

  async #read(pid: number): Promise<StatementReading | null> {
    const session = await this.#connected();
    if (!session) return null;
    const askedMs = performance.now();
    try {
      const { rows } = await session.client.query<{ seen: string }>({ ...this.#query, values: [pid] });
      return parseReading(rows[0]?.seen ?? '', askedMs);
    } catch (error) {
      if (this.#query === LOOK && NOT_ALLOWED.has(sqlstateOf(error))) {
        this.#query = LOCKS_ALONE;
        return await this.#read(pid);
      }
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

function parseReading(seen: string, askedMs: number): StatementReading {
  const [server = '', ...held] = seen.split('\n');
  const [nextXid, position] = server.split(' ');
  const locks: RelationLock[] = [];
  const xids: number[] = [];
  for (const line of held) {
    const [first, second, mode] = line.split(' ');
    if (mode === undefined) xids.push(Number(first));
    else locks.push({ database: Number(first), relation: Number(second), mode });
  }
  return {
    locks,
    xids,
    nextXid: nextXid ? Number(nextXid) : null,
    walPosition: position ? bytesOf(position) : null,
    askedMs,
  };
}

const HALF = 2 ** 32;

/** A pg_lsn is two halves of a number in hexadecimal digits. */
function bytesOf(position: string): number {
  const [high = '', low = ''] = position.split('/');
  return Number.parseInt(high, 16) * HALF + Number.parseInt(low, 16);
}
