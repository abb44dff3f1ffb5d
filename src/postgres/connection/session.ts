import type { Client } from 'pg';
import type { HostAndPort } from './connection-settings.ts';

/**
 * One connection of safemigrate's own to a server, opened by postgres/connection/connect.ts and by nothing else.
 * Its settings are fixed at the start: a telling application_name, lock_timeout, statement_timeout,
 * search_path = pg_catalog, no session timeouts, event triggers off where the role may.
 */
export interface Session {
  readonly database: string;
  /** The host that let us in, of those that the settings name. */
  readonly address: HostAndPort;
  /** The backend's process id. */
  readonly pid: number;
  /** Transactions of it that have ended, its login among them: as many as the server counts. */
  readonly transactions: number;
  /** For libraries that want a `pg` client; what they send is audited as well. */
  readonly client: Client;
  /** Runs one statement. @throws pg's DatabaseError, or SafemigrateError `LOST` when the connection is gone. */
  query<Row extends object = Record<string, unknown>>(
    sql: string,
    values?: readonly unknown[],
  ): Promise<Row[]>;
  /**
   * Sends statements without parameters together, and waits once for all: a server may be far away. With the first that fails
   * none of the others has a result. @returns the rows of each.
   */
  queryAll<Row extends object = Record<string, unknown>>(statements: readonly string[]): Promise<Row[][]>;
  /** Called once when the connection ends without close(); the reason is readable. */
  onLost(listener: (reason: string) => void): void;
  /** Asks the server to end the running query, which then fails with 57014. Does nothing when idle; never throws. */
  cancel(): Promise<void>;
  /** Cancels what runs. Idempotent; never throws. */
  close(): Promise<void>;
}
