import type { Session } from '../postgres/connection/session.ts';

/** Asks about the server's activity over a session of its own, which it reopens after a loss. */
export class ActivityReader {
  readonly #connect: () => Promise<Session>;
  #session: Promise<Session> | undefined;
  #closed = false;

  constructor(connect: () => Promise<Session>) {
    this.#connect = connect;
  }

  /** Sends a query. @returns undefined if the server did not answer. Never rejects. */
  ask<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[] | undefined> {
    return this.use((session) => session.query<Row>(sql, values));
  }

  /** Uses the session. @returns undefined if the server did not answer. Never rejects. */
  async use<T>(work: (session: Session) => Promise<T>): Promise<T | undefined> {
    if (this.#closed) return undefined;
    this.#session ??= this.#connect();
    const session = this.#session;
    try {
      const opened = await session;
      opened.onLost(() => this.#forget(session));
      return await work(opened);
    } catch {
      // The caller goes on without an answer; the next query gets a new session.
      this.#forget(session);
      await closed(session);
      return undefined;
    }
  }

  /** Closes the session, and with it a query under way. */
  async close(): Promise<void> {
    this.#closed = true;
    await closed(this.#session);
    this.#session = undefined;
  }

  #forget(session: Promise<Session>): void {
    if (this.#session === session) this.#session = undefined;
  }
}

async function closed(session: Promise<Session> | undefined): Promise<void> {
  await session?.then(
    (opened) => opened.close(),
    () => {},
  );
}

/**
 * Lists the sessions that wait for a lock, in one reading of the locks. pg_lock_status shows the locks of all roles; waitstart is null
 * for a moment after a wait has begun. pg_blocking_pids stops the lock manager for a moment, so it is called only for sessions that
 * wait. Waits for advisory locks (migration tools exclude each other by them) and for a virtualxid (CREATE INDEX CONCURRENTLY) do
 * not hurt the application. The lock of a row is a wait for a transaction id; the relation of the row is in the tuple lock that the
 * session holds or waits for.
 */
export const WAITERS = `
SELECT w.pid, w.hurt, pg_blocking_pids(w.pid) AS blockers, coalesce(w.relation, w.of_row)::text AS relation,
       extract(epoch FROM clock_timestamp())::float8 * 1000 AS "nowMs",
       coalesce(extract(epoch FROM w.since), extract(epoch FROM clock_timestamp()))::float8 * 1000 AS "sinceMs"
  FROM (SELECT pid, min(waitstart) FILTER (WHERE NOT granted) AS since,
               max(relation::int8) FILTER (WHERE NOT granted) AS relation,
               max(relation::int8) FILTER (WHERE locktype = 'tuple') AS of_row,
               bool_or(locktype NOT IN ('advisory', 'virtualxid')) FILTER (WHERE NOT granted) AS hurt
          FROM pg_lock_status() WHERE NOT granted OR locktype = 'tuple'
         GROUP BY pid HAVING NOT bool_and(granted)) w
 WHERE w.pid IS NOT NULL`;

/** A row of WAITERS: a session that waits for a lock. */
export interface Waiter {
  readonly pid: number;
  /** OID; null if the wait is for something else than a relation. */
  readonly relation: string | null;
  /** Process ids of the sessions that hold the lock, or wait for it earlier in the queue. */
  readonly blockers: readonly number[];
  /** It waits for a lock that the application needs, unlike an advisory lock or a virtualxid. */
  readonly hurt: boolean;
  readonly sinceMs: number;
  readonly nowMs: number;
}

/**
 * Counts the sessions that a backend of the command blocks, directly or through others, and the longest wait. Time that they
 * waited before its transaction began does not count.
 * @param begunMs start of the transaction by the server's clock; null if it is not known.
 */
export function blockedBehind(
  pid: number,
  begunMs: number | null,
  waiters: readonly Waiter[],
  ours: ReadonlySet<number>,
): { waiting: number; longestMs: number } {
  const behind = waitersBehind(pid, waiters, ours);
  const waits = behind.map(({ nowMs, sinceMs }) => nowMs - Math.max(sinceMs, begunMs ?? 0));
  return { waiting: behind.length, longestMs: Math.max(0, ...waits) };
}

/** Finds the sessions that a backend blocks, directly or through others. @param ours process ids of the command's own sessions. */
export function waitersBehind(pid: number, waiters: readonly Waiter[], ours: ReadonlySet<number>): Waiter[] {
  const behind = new Set([pid]);
  const found: Waiter[] = [];
  for (let more = true; more; ) {
    const next = waiters.filter(
      (waiter) =>
        waiter.hurt &&
        !behind.has(waiter.pid) &&
        !ours.has(waiter.pid) &&
        waiter.blockers.some((blocker) => behind.has(blocker)),
    );
    for (const waiter of next) behind.add(waiter.pid);
    found.push(...next);
    more = next.length > 0;
  }
  return found;
}
