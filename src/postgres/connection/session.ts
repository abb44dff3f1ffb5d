import type { Client } from 'pg';
import type { HostAndPort } from './connection-settings.ts';

/**
 * One connection of safemigrate's own to a server, opened by postgres/connection/connect.ts and by nothing else.
 * Its settings are fixed at the start: a descriptive application_name, lock_timeout, statement_timeout,
 * search_path = pg_catalog, no session timeouts, event triggers off if the role may set that.
 */
export interface Session {
  readonly database: string;
  /** The host that accepted the login, of those in the settings. */
  readonly address: HostAndPort;
  /** The backend's process id. */
  readonly pid: number;
  /** Transactions of it that have ended, its login among them: as many as the server counts. */
  readonly transactions: number;
  /** For libraries that need a `pg` client; their statements are audited as well. */
  readonly client: Client;
  /** Runs one statement. @throws pg's DatabaseError, or SafemigrateError `LOST` if the connection is lost. */
  query<Row extends object = Record<string, unknown>>(
    sql: string,
    values?: readonly unknown[],
  ): Promise<Row[]>;
  /**
   * Sends statements without parameters in one round trip. If one fails, none has a result. A pipelined session does not wait for the
   * answers to earlier ones. @returns the rows of each.
   */
  queryAll<Row extends object = Record<string, unknown>>(statements: readonly string[]): Promise<Row[][]>;
  /** Calls the listener once if the connection ends without close(); the reason is text for people. */
  onLost(listener: (reason: string) => void): void;
  /** Asks the server to end the running query, which then fails with 57014. Does nothing if idle; never throws. */
  cancel(): Promise<void>;
  /** Closes the connection as one that was lost, for this reason: no answer will come. */
  abandon(reason: string): void;
  /** Cancels a running query and closes the connection. Idempotent; never throws. */
  close(): Promise<void>;
}
