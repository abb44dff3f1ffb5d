import type { Session } from '../../postgres/connection/session.ts';

/** Queries the server's activity over a session of its own, which it reopens after a loss. */
export class ActivityReader {
  readonly #connect: () => Promise<Session>;
  #session: Session | undefined;
  #closed = false;

  constructor(connect: () => Promise<Session>) {
    this.#connect = connect;
  }

  /** Sends a query. @returns undefined if the server did not answer. Never rejects. */
  async ask<Row extends object>(sql: string, values: readonly unknown[]): Promise<Row[] | undefined> {
    if (this.#closed) return undefined;
    try {
      this.#session ??= await this.#connect();
      return await this.#session.query<Row>(sql, values);
    } catch {
      // The caller goes on without an answer; the next query gets a new session.
      const session = this.#session;
      this.#session = undefined;
      await session?.close();
      return undefined;
    }
  }

  /** Closes the session, and with it a query under way. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#session?.close();
    this.#session = undefined;
  }
}
