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
