import { SafemigrateError } from '../errors.ts';
import type { Session } from '../target/session.ts';
import type { ReadLocks, RelationLock } from '../wire/observed.ts';

/** One row, and no join, because a join would wait for whoever holds pg_class. */
const LOCKS_OF = `SELECT pg_catalog.string_agg(
         pg_catalog.concat_ws(' ', database::pg_catalog.text, relation::pg_catalog.text, mode), E'\\n') AS held
  FROM pg_catalog.pg_lock_status()
 WHERE pid = $1 AND granted AND locktype = 'relation'`;

/** After a lost connection, the next one is not tried at once: the server may be restarting. */
const RETRY_AFTER_MS = 500;

/**
 * Reads locks over a connection of its own, which must not sit in the database that is observed (DROP DATABASE would
 * fail because of it). Losing it costs the locks of the statements until there is a new one, nothing else.
 */
export class LockReader {
  readonly #connect: () => Promise<Session>;
  #session: Session | undefined;
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

  readonly read: ReadLocks = async (pid) => {
    const session = await this.#connected();
    if (!session) return null;
    try {
      const { rows } = await session.client.query<{ held: string | null }>({
        name: 'locks',
        text: LOCKS_OF,
        values: [pid],
      });
      return parseLocks(rows[0]?.held ?? '');
    } catch {
      this.#lose(session);
      return null;
    }
  };

  async close(): Promise<void> {
    this.#closed = true;
    await this.#connecting;
    await this.#session?.close();
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

function parseLocks(held: string): RelationLock[] {
  return held
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [database, relation, mode] = line.split(' ');
      return { database: Number(database), relation: Number(relation), mode: mode ?? '' };
    });
}
