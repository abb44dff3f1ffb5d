import type { Session } from '../postgres/connection/session.ts';

/** A session in a database. Values that the role may not read are null. */
export interface ActivitySession {
  readonly pid: number;
  /** null for processes of the server itself, such as autovacuum workers. */
  readonly user: string | null;
  readonly application: string;
  readonly clientAddress: string | null;
  /** `active`, `idle`, `idle in transaction`, … */
  readonly state: string | null;
  /** Start of that state, ISO 8601. */
  readonly since: string | null;
  /** The running statement, or the last one. */
  readonly query: string | null;
  /** `client backend`, `autovacuum worker`, `walsender`, … */
  readonly backendType: string | null;
}

const OTHER_SESSIONS = `
SELECT pid, usename::text AS "user", coalesce(application_name, '') AS application,
       host(client_addr) AS "clientAddress", state, to_json(state_change) #>> '{}' AS since,
       CASE WHEN query NOT IN ('', '<insufficient privilege>') THEN query END AS query,
       backend_type AS "backendType"
  FROM pg_stat_activity
 WHERE datid = $1 AND pid <> pg_backend_pid() AND pid <> ALL ($2::int[])
 ORDER BY backend_start, pid`;

/** Lists the sessions in the database (by OID), except this one and those named as ours. */
export function otherSessions(
  session: Session,
  databaseOid: number,
  ourPids: readonly number[] = [],
): Promise<ActivitySession[]> {
  return session.query<ActivitySession>(OTHER_SESSIONS, [databaseOid, ourPids]);
}

/** A prepared transaction; it holds its locks until it is ended. */
export interface PreparedTransaction {
  readonly gid: string;
  readonly owner: string;
  /** ISO 8601. */
  readonly preparedAt: string;
}

const PREPARED = `
SELECT gid, owner::text, to_json(prepared) #>> '{}' AS "preparedAt"
  FROM pg_prepared_xacts WHERE database = $1 ORDER BY prepared`;

export function preparedTransactions(session: Session, database: string): Promise<PreparedTransaction[]> {
  return session.query<PreparedTransaction>(PREPARED, [database]);
}
