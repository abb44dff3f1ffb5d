import { setTimeout as delay } from 'node:timers/promises';
import type { Session } from '../postgres/connection/session.ts';

/**
 * Counts the rows written in a database by the server's statistics: rows inserted, updated and deleted, including those of the
 * catalogs, so that TRUNCATE and DDL count as well. Rows that ANALYZE writes into its own catalogs are subtracted. Rows of
 * transactions that were rolled back count; advancing a sequence does not. The statistics are reset after a crash and start at
 * zero on another server: the archiver's do so, too, and have the time of it.
 */
const TOTAL = `
SELECT (tup_inserted + tup_updated + tup_deleted)::text AS rows,
       concat_ws(' ', extract(epoch FROM stats_reset),
                      (SELECT extract(epoch FROM a.stats_reset) FROM pg_stat_archiver a)) AS since
  FROM pg_stat_database WHERE datid = $1`;
/** Tells if every session counts its writes, by the settings of the server, of the database, and of roles in it. */
const COUNTED = `
SELECT current_setting('track_counts')::bool AND NOT EXISTS (
  SELECT FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) AS setting
   WHERE s.setdatabase IN (0, $1) AND setting ~* '^track_counts=' AND setting !~* '=(on|true|yes|1|t|y)$') AS counted`;
const OF_ANALYZE = `
SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::text AS rows FROM pg_stat_sys_tables
 WHERE relid IN ('pg_catalog.pg_statistic'::regclass, 'pg_catalog.pg_statistic_ext_data'::regclass)`;

/** Version 14 has a statistics collector, which gets the counters up to half a second late. */
const SHARED_COUNTERS_SINCE = 150000;
const COLLECTOR_MS = 1_000;

/** Counts the rows that ANALYZE has written. @param inside a session in the database, before it is closed. */
export async function rowsOfAnalyze(inside: Session): Promise<bigint> {
  const [row] = await inside.query<{ rows: string }>(OF_ANALYZE);
  return BigInt(row?.rows ?? 0);
}

export interface DatabaseWrites {
  readonly rows: bigint;
  /** Rows are counted at this moment (`track_counts`); otherwise the number of writes is not known. */
  readonly counted: boolean;
  /** Identifies the last reset of the statistics: two numbers of rows are comparable if it is the same. */
  readonly since: string;
}

/** Waits until the counters include those of sessions that have ended. */
export async function waitForCounters(versionNum: number): Promise<void> {
  if (versionNum < SHARED_COUNTERS_SINCE) await delay(COLLECTOR_MS);
}

/** Reads the number of rows written. @param session in another database, once the one with this OID is closed. */
export async function rowsWritten(session: Session, oid: number, ofAnalyze: bigint): Promise<DatabaseWrites> {
  const [row] = await session.query<{ rows: string; since: string }>(TOTAL, [oid]);
  const [setting] = await session.query<{ counted: boolean }>(COUNTED, [oid]);
  return {
    rows: BigInt(row?.rows ?? 0) - ofAnalyze,
    counted: setting?.counted ?? false,
    since: row?.since ?? '',
  };
}
