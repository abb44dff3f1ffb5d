import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Session } from '../postgres/connection/session.ts';

/**
 * Reads everything that the cluster's catalogs hold of a database, except its name, OID, datallowconn and age: a successor must
 * have the same properties as the original. The comment is set together with the name.
 */
const PROPERTIES = `
SELECT (to_jsonb(d) - '{oid,datname,datallowconn,datfrozenxid,datminmxid,datacl}'::text[])
       || jsonb_build_object(
            'datacl', (SELECT jsonb_agg(to_jsonb(a) ORDER BY a.grantor, a.grantee, a.privilege_type)
                         FROM aclexplode(d.datacl) a),
            'settings', (SELECT jsonb_agg(jsonb_build_array(s.setrole::text, s.setconfig) ORDER BY s.setrole)
                           FROM pg_db_role_setting s WHERE s.setdatabase = d.oid),
            'labels', (SELECT jsonb_agg(jsonb_build_array(l.provider, l.label) ORDER BY l.provider)
                         FROM pg_shseclabel l WHERE l.classoid = 1262 AND l.objoid = d.oid)) AS properties
  FROM pg_database d WHERE d.oid = $1`;

/** A database's properties in the cluster's catalogs, by the catalogs' names. */
export type ClusterProperties = Readonly<Record<string, unknown>>;

/** Reads the properties of a database. @param session in any database of its server. */
export async function readClusterProperties(session: Session, oid: number): Promise<ClusterProperties> {
  const [row] = await session.query<{ properties: ClusterProperties }>(PROPERTIES, [oid]);
  if (!row) throw new Error(`no database with OID ${oid}`);
  return row.properties;
}

/** Properties that are compared by themselves; all others count as one. */
const BY_THEMSELVES: Readonly<Record<string, string>> = {
  datacl: 'privileges',
  settings: 'settings',
  labels: 'security labels',
};
const DIGEST_CHARACTERS = 12;

/** Digests the properties of a database, and its comment, by the words for them. */
export function propertyDigests(
  properties: ClusterProperties,
  comment: string | null,
): Record<string, string> {
  const parts: Record<string, Record<string, unknown>> = { comment: { comment } };
  for (const [name, value] of Object.entries(properties)) {
    const words = BY_THEMSELVES[name] ?? 'owner and options';
    parts[words] = { ...parts[words], [name]: value };
  }
  const digest = (part: unknown) =>
    createHash('sha256').update(JSON.stringify(part)).digest('hex').slice(0, DIGEST_CHARACTERS);
  return Object.fromEntries(Object.entries(parts).map(([words, part]) => [words, digest(part)]));
}

/** Names the properties in which two databases differ, or one database at two moments. */
export function differingProperties(first: ClusterProperties, second: ClusterProperties): string[] {
  const names = [...new Set([...Object.keys(first), ...Object.keys(second)])].sort();
  return names.filter((name) => JSON.stringify(first[name]) !== JSON.stringify(second[name]));
}

/**
 * Counts the rows written in a database by the server's statistics: rows inserted, updated and deleted, including those of the
 * catalogs, so that TRUNCATE and DDL count as well. Rows that ANALYZE writes into its own catalogs are subtracted. Rows of
 * transactions that were rolled back count; advancing a sequence does not. The statistics are reset after a crash and start at
 * zero on another server: the archiver's do so, too, and have the time of it. All sessions count their writes, unless a setting of
 * the server, of the database, or of a role in it says otherwise.
 */
const WRITTEN = `
SELECT (d.tup_inserted + d.tup_updated + d.tup_deleted)::text AS rows,
       concat_ws(' ', extract(epoch FROM d.stats_reset),
                      (SELECT extract(epoch FROM a.stats_reset) FROM pg_stat_archiver a)) AS since,
       current_setting('track_counts')::bool AND NOT EXISTS (
         SELECT FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) AS setting
          WHERE s.setdatabase IN (0, $1) AND setting ~* '^track_counts=' AND setting !~* '=(on|true|yes|1|t|y)$') AS counted
  FROM pg_stat_database d WHERE d.datid = $1`;
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

export type DatabaseWrites = Awaited<ReturnType<typeof rowsWritten>>;

/** Waits until the counters include those of sessions that have ended. */
export async function waitForCounters(versionNum: number): Promise<void> {
  if (versionNum < SHARED_COUNTERS_SINCE) await delay(COLLECTOR_MS);
}

/** Reads the number of rows written. @param session in another database, once the one with this OID is closed. */
export async function rowsWritten(session: Session, oid: number, ofAnalyze: bigint) {
  const [row] = await session.query<{ rows: string; since: string; counted: boolean }>(WRITTEN, [oid]);
  return {
    rows: BigInt(row?.rows ?? 0) - ofAnalyze,
    /** Rows are counted at this moment (`track_counts`); otherwise the number of writes is not known. */
    counted: row?.counted ?? false,
    /** Identifies the last reset of the statistics: two numbers of rows are comparable if it is the same. */
    since: row?.since ?? '',
  };
}
