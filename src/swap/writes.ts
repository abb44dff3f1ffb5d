import { setTimeout as pause } from 'node:timers/promises';
import type { Session } from '../postgres/connection/session.ts';

/**
 * How much has been written in a database since some moment, by the server's own counters: rows inserted, updated and
 * deleted, those of catalogues included, so that TRUNCATE and DDL count as well. ANALYZE writes rows too, into tables of
 * its own: they are not counted. Rows of transactions that were rolled back count; a sequence that was advanced alone does
 * not. The counters begin anew after a crash and on another server: then those of the archiver do so too, and tell when.
 */
const TOTAL = `
SELECT (tup_inserted + tup_updated + tup_deleted)::text AS rows,
       concat_ws(' ', extract(epoch FROM stats_reset),
                      (SELECT extract(epoch FROM a.stats_reset) FROM pg_stat_archiver a)) AS since
  FROM pg_stat_database WHERE datid = $1`;
const OF_ANALYZE = `
SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::text AS rows FROM pg_stat_sys_tables
 WHERE relid IN ('pg_catalog.pg_statistic'::regclass, 'pg_catalog.pg_statistic_ext_data'::regclass)`;

/** Version 14 has a process that collects counters, and gets them up to half a second late. */
const AT_ONCE_SINCE = 150000;
const COLLECTED_MS = 1_000;

/** @param inside a session in the database, before it is closed. */
export async function rowsOfAnalyze(inside: Session): Promise<bigint> {
  const [row] = await inside.query<{ rows: string }>(OF_ANALYZE);
  return BigInt(row?.rows ?? 0);
}

export interface DatabaseWrites {
  readonly rows: bigint;
  /** When the server began to count. Two numbers of rows can be compared where it is the same. */
  readonly since: string;
}

/** Until the counters of sessions that have ended can be read. */
export async function countersArrive(versionNum: number): Promise<void> {
  if (versionNum < AT_ONCE_SINCE) await pause(COLLECTED_MS);
}

/** @param session in another database, once the one with that OID is closed. */
export async function rowsWritten(session: Session, oid: number, ofAnalyze: bigint): Promise<DatabaseWrites> {
  const [row] = await session.query<{ rows: string; since: string }>(TOTAL, [oid]);
  return { rows: BigInt(row?.rows ?? 0) - ofAnalyze, since: row?.since ?? '' };
}
