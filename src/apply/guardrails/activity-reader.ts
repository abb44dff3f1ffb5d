import type { Session } from '../../postgres/connection/session.ts';

/** A session of ours that looks at the server, and is opened again where it was lost. */
export class ActivityReader {
  readonly #connect: () => Promise<Session>;
  #session: Session | undefined;
  #closed = false;

  constructor(connect: () => Promise<Session>) {
    this.#connect = connect;
  }

  /** @returns undefined where the server did not answer. Never rejects. */
  async ask<Row extends object>(sql: string, values: readonly unknown[]): Promise<Row[] | undefined> {
    if (this.#closed) return undefined;
    try {
      this.#session ??= await this.#connect();
      return await this.#session.query<Row>(sql, values);
    } catch {
      const session = this.#session;
      this.#session = undefined;
      await session?.close();
      return undefined;
    }
  }

  /** Ends what is being asked, too. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#session?.close();
    this.#session = undefined;
  }
}
