import {
  HAS_ROWS,
  PARTITIONED_TABLE,
  RELATIONS_AND_SCHEMAS,
  USER_SCHEMA,
} from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName } from '../postgres/sql/quote.ts';
import { lockWaitsSql } from './read-lock-waits.ts';
import {
  type Holder,
  LOCKING_SETTINGS,
  type RelationCounters,
  type Situation,
  type Standby,
  type TrafficReading,
} from './traffic.ts';

const OURS = "coalesce(a.application_name, '') LIKE 'safemigrate %' OR a.pid = pg_backend_pid()";

/** Versions from which the server keeps when a relation was last scanned, and when its counters were reset. */
const WITH_LAST_SCAN = 160_000;
const WITH_RESET_OF_RELATIONS = 190_000;

// A database's own time of reset is null from version 15 on until somebody resets it. The counters of the server's own
// processes begin with the cluster, or again after a crash, as all counters do then; they outlive a restart, as all do. The time
// when the server started says nothing of either. Where somebody reset one of them by itself, the others still tell.
const SINCE_BEGINNING = 'least(b.stats_reset, r.stats_reset, w.stats_reset)';

// A reset of one table's counters sets the database's time of reset as well, and leaves all other counters as they were. From
// version 19 on the time of a system catalogue tells of resets of the whole database. Before, a reset of the whole forgets when
// relations that are not shared were vacuumed, analyzed and scanned. So a time before the reset shows that it was of one table,
// and when the others began is not known. Backends publish their scans up to a minute late.
function countedSince(version: number): string {
  if (version >= WITH_RESET_OF_RELATIONS)
    return `coalesce(pg_stat_get_stat_reset_time('pg_class'::regclass), ${SINCE_BEGINNING})`;
  const times = ['vacuum', 'autovacuum', 'analyze', 'autoanalyze'].map(
    (what) => `pg_stat_get_last_${what}_time(c.oid)`,
  );
  if (version >= WITH_LAST_SCAN) times.push("pg_stat_get_lastscan(c.oid) + interval '1 minute'");
  return `CASE WHEN d.stats_reset IS NULL THEN ${SINCE_BEGINNING}
    WHEN NOT EXISTS (SELECT FROM pg_class c WHERE NOT c.relisshared AND least(${times.join(', ')}) < d.stats_reset) THEN d.stats_reset END`;
}

// Of other roles' sessions a role without pg_read_all_stats sees nearly nothing: the query then says so, and the backend's
// type is null. A walsender of a standby is in no database, and takes no slot of max_connections. What a base backup
// streams is no standby. reserved_connections exists from version 16 on.
const situation = (version: number) => `
WITH d AS MATERIALIZED (SELECT * FROM pg_stat_database WHERE datname = current_database()),
     activity AS MATERIALIZED (SELECT * FROM pg_stat_activity)
SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS "atMs",
  (SELECT (d.xact_commit + d.xact_rollback)::float8 FROM d) AS transactions,
  (SELECT extract(epoch FROM ${countedSince(version)})::float8 * 1000
     FROM d, pg_stat_bgwriter b, pg_stat_archiver r, pg_stat_wal w) AS "countedSinceMs",
  json_build_object('max', current_setting('max_connections')::int,
    'reserved', current_setting('superuser_reserved_connections')::int
      + coalesce(current_setting('reserved_connections', true)::int, 0),
    'open', (SELECT count(*) FROM activity a
              WHERE a.datid IS NOT NULL AND coalesce(a.backend_type, 'client backend') = 'client backend'
                AND NOT (${OURS}))) AS sessions,
  (SELECT count(*)::int FROM activity a
    WHERE a.datid IS NOT NULL AND a.query = '<insufficient privilege>') AS "hiddenSessions",
  (SELECT json_build_object('ageMs', extract(epoch FROM clock_timestamp() - a.xact_start) * 1000,
                            'application', a.application_name, 'state', a.state)
     FROM activity a, d
    WHERE a.datid = d.datid AND a.backend_type = 'client backend' AND a.xact_start IS NOT NULL AND NOT (${OURS})
    ORDER BY a.xact_start LIMIT 1) AS "oldestTransaction",
  (SELECT json_build_object('count', count(*),
                            'oldestMs', extract(epoch FROM clock_timestamp() - min(p.prepared)) * 1000)
     FROM pg_prepared_xacts p WHERE p.database = current_database()) AS "preparedTransactions",
  (SELECT coalesce(json_agg(json_build_object(
            'name', w.application_name, 'seen', w.state IS NOT NULL,
            'synchronous', coalesce(w.sync_state, 'async') <> 'async',
            'lagBytes', pg_wal_lsn_diff(pg_current_wal_lsn(), w.replay_lsn),
            'lagMs', extract(epoch FROM w.replay_lag) * 1000) ORDER BY w.application_name), '[]')
     FROM pg_stat_replication w
    WHERE coalesce(w.state, 'streaming') IN ('streaming', 'catchup')) AS standbys,
  ARRAY(SELECT s.slot_name::text FROM pg_replication_slots s
         WHERE NOT s.active AND NOT s.temporary ORDER BY s.slot_name) AS "inactiveSlots",
  ARRAY(SELECT s.slot_name::text FROM pg_replication_slots s
         WHERE s.database = current_database() AND NOT s.temporary ORDER BY s.slot_name) AS "logicalSlots",
  json_build_object('capacity', current_setting('max_locks_per_transaction')::int
      * (SELECT sum(setting::int) FROM pg_settings WHERE name IN (${LOCKING_SETTINGS.map((each) => `'${each}'`).join(', ')})),
    'held', (SELECT count(*) FROM pg_locks k
              WHERE NOT k.fastpath AND k.pid IS DISTINCT FROM pg_backend_pid())) AS "lockTable",
  ${lockWaitsSql(version)} AS "lockWaits"`;

// The view pg_stat_user_tables says the same of tables, and leaves out whose partition one is.
const counters = (version: number) => `
SELECT n.nspname AS schema, c.relname AS name, pn.nspname AS "parentSchema", pc.relname AS parent,
  (pg_stat_get_numscans(c.oid)
    + (SELECT coalesce(sum(pg_stat_get_numscans(i.indexrelid)), 0) FROM pg_index i WHERE i.indrelid = c.oid))::float8 AS scans,
  pg_stat_get_tuples_inserted(c.oid)::float8 AS inserted,
  pg_stat_get_tuples_updated(c.oid)::float8 AS updated,
  pg_stat_get_tuples_deleted(c.oid)::float8 AS deleted,
  ${version < WITH_RESET_OF_RELATIONS ? 'NULL::float8' : 'extract(epoch FROM pg_stat_get_stat_reset_time(c.oid))::float8 * 1000'} AS "countedSinceMs"
  FROM ${RELATIONS_AND_SCHEMAS}${PARTITIONED_TABLE}
 WHERE ${HAS_ROWS} AND ${USER_SCHEMA}`;

const INDEXES = `
SELECT n.nspname AS schema, x.relname AS name, tn.nspname AS "tableSchema", t.relname AS "table",
  CASE x.relkind WHEN 'I' THEN (SELECT coalesce(sum(pg_stat_get_numscans(p.relid)), 0) FROM pg_partition_tree(x.oid) p)
    ELSE pg_stat_get_numscans(x.oid) END::float8 AS scans
  FROM pg_index i
  JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_namespace n ON n.oid = x.relnamespace
  JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace tn ON tn.oid = t.relnamespace
 WHERE ${USER_SCHEMA}`;

// A prepared transaction has no process, and keeps the virtual number of the one that it came from, or gets another one
// when the server restarts; what shows it is the lock on its own number.
const HOLDERS = `
SELECT DISTINCT ON (l.relation, l.mode) n.nspname AS schema, c.relname AS name, l.mode,
  extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, p.prepared))::float8 * 1000 AS "ageMs",
  a.application_name AS application, CASE WHEN l.pid IS NULL THEN 'prepared' ELSE a.state END AS state
  FROM pg_locks l
  JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  LEFT JOIN (SELECT t.virtualtransaction, x.prepared
               FROM pg_prepared_xacts x
               JOIN pg_locks t ON t.locktype = 'transactionid' AND t.transactionid = x.transaction) p
         ON l.pid IS NULL AND l.virtualtransaction = p.virtualtransaction
 WHERE l.locktype = 'relation' AND l.granted
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND ${USER_SCHEMA}
   AND coalesce(a.xact_start, p.prepared) IS NOT NULL AND (l.pid IS NULL OR NOT (${OURS}))
 ORDER BY l.relation, l.mode, coalesce(a.xact_start, p.prepared)`;

const VERSION = `SELECT current_setting('server_version_num')::int AS version`;

type Named = { schema: string; name: string };
type Readings = [
  (Omit<Situation, 'standbys'> &
    Pick<TrafficReading, 'atMs' | 'countedSinceMs' | 'transactions'> & {
      standbys: (Standby & { seen: boolean })[];
    })[],
  (Named & Omit<RelationCounters, 'partitionOf'> & { parentSchema: string | null; parent: string | null })[],
  (Named & Omit<Holder, 'relation'>)[],
  (Named & { tableSchema: string; table: string; scans: number })[],
];

/** Reads the statistics of the session's database once: queries that only read catalogues and shared memory. */
export async function readTraffic(session: Session): Promise<TrafficReading> {
  const [{ version } = { version: 0 }] = await session.query<{ version: number }>(VERSION);
  const [[now] = [], counted, holders, indexes] = (await session.queryAll([
    ...[situation(version), counters(version), HOLDERS, INDEXES],
  ])) as Readings;
  if (!now) throw new Error('a query without FROM had no row');
  const { standbys } = now;
  return {
    ...now,
    ownTransactions: session.transactions,
    standbys: standbys.every(({ seen }) => seen) ? standbys.map(({ seen, ...each }) => each) : null,
    relations: new Map(
      counted.map(({ schema, name, parentSchema, parent, ...each }) => [
        displayName(schema, name),
        {
          ...each,
          partitionOf: parent === null || parentSchema === null ? null : displayName(parentSchema, parent),
        },
      ]),
    ),
    tableOfIndex: new Map(
      indexes.map(({ schema, name, tableSchema, table }) => [
        displayName(schema, name),
        displayName(tableSchema, table),
      ]),
    ),
    indexScans: new Map(indexes.map(({ schema, name, scans }) => [displayName(schema, name), scans])),
    holders: holders.map(({ schema, name, ...held }) => ({ ...held, relation: displayName(schema, name) })),
  };
}
