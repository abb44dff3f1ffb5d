import { setTimeout as delay } from 'node:timers/promises';
import { ownBackendPids, ownSessionsOpened } from '../postgres/connection/own-backends.ts';
import type { Session } from '../postgres/connection/session.ts';

/** A session of somebody else in some database of the server, or a background worker that may write there. */
export interface Visitor {
  readonly pid: number;
  /** OID. */
  readonly database: number;
  /** Start in the server's own text; with the pid it identifies a session. null if the role may not see it. */
  readonly startedAt: string | null;
  /** The address and port of its client; null if the role may not see them, or for a Unix socket. */
  readonly client: { readonly address: string; readonly port: number } | null;
  /** It is a connection for replication, which the server does not count. */
  readonly isWalsender: boolean;
}

/** Counters of the server for one database since its statistics began. */
export interface DatabaseAccount {
  readonly name: string;
  readonly sessions: number;
  /** Number of these that were terminated: by pg_terminate_backend(), or SIGTERM. */
  readonly terminated: number;
  /** Rows written there, those of catalogues among them. */
  readonly rowsWritten: number;
  /** Sessions that this process has opened there: the server counts them among the others. */
  readonly ownSessions: number;
  /** When the counters were last reset; null if they never were. */
  readonly resetAt: string | null;
}

/** The books of a server at one moment: who is there, and how many have come since its statistics began. */
export interface ServerAccounts {
  /** The server's clock before the reading, as text of the server. */
  readonly at: string;
  /**
   * Everything that ended before `at` is counted. PostgreSQL 14 publishes its counters every 500 ms; a reading that did not wait for the next
   * time may lack the last ones.
   */
  readonly isCurrent: boolean;
  /** When the server last read its configuration files, as text of the server. */
  readonly configuredAt: string;
  /** Everybody but us: those who were there just before the counters were read. Their last rows may not be counted yet. */
  readonly visitors: readonly Visitor[];
  /** By OID. */
  readonly databases: ReadonlyMap<number, DatabaseAccount>;
  /** Blocks of relations that connections for replication have used; null if the server does not count them (before version 16). */
  readonly walsenderBlocks: number | null;
  /** Rows written in tables of the system that no digest covers: large objects. */
  readonly largeObjectRows: number;
  /** Accesses to the blocks of the database's sequences. */
  readonly sequenceAccesses: number;
  /** Prepared transactions of the database: their rows are counted when they are committed. */
  readonly prepared: number;
  /** Rows are counted (`track_counts`); sessions always are. */
  readonly countsRows: boolean;
}

// Autovacuum writes statistics only, and parallel workers belong to a session that is listed by itself.
const VISITORS = `
SELECT a.pid, a.datid::int8::float8 AS database, to_json(a.backend_start) #>> '{}' AS "startedAt",
       CASE WHEN a.client_addr IS NOT NULL AND a.client_port IS NOT NULL
            THEN json_build_object('address', host(a.client_addr), 'port', a.client_port) END AS client,
       coalesce(a.backend_type = 'walsender', false) AS "isWalsender"
  FROM pg_stat_activity a
 WHERE a.datid IS NOT NULL AND a.pid <> pg_backend_pid()
   AND coalesce(a.backend_type, 'client backend') NOT IN ('autovacuum worker', 'parallel worker')`;
// A backend that is new has the postmaster's time of the configuration.
const NOW = `SELECT to_json(clock_timestamp()) #>> '{}' AS now, current_setting('server_version_num')::int AS version,
  to_json(pg_conf_load_time()) #>> '{}' AS "configuredAt"`;
const WALSENDER_BLOCKS = `SELECT sum(coalesce(hits, 0) + coalesce(reads, 0))::float8 AS blocks
  FROM pg_stat_io WHERE backend_type = 'walsender' AND object = 'relation'`;
const DATABASES = `
SELECT datid::int8::float8 AS oid, datname AS name, sessions::float8, sessions_killed::float8 AS terminated,
       (tup_inserted + tup_updated + tup_deleted)::float8 AS "rowsWritten", stats_reset::text AS "resetAt"
  FROM pg_stat_database WHERE datname IS NOT NULL`;
const OWN_DATABASE = `
SELECT (n_tup_ins + n_tup_upd + n_tup_del)::float8 AS "largeObjectRows",
  (SELECT coalesce(sum(blks_read + blks_hit), 0)::float8 FROM pg_statio_all_sequences) AS "sequenceAccesses",
  (SELECT count(*)::int FROM pg_prepared_xacts WHERE database = current_database()) AS prepared,
  current_setting('track_counts')::bool AS "countsRows"
  FROM pg_stat_sys_tables WHERE relid = 'pg_largeobject'::regclass`;

const WITH_IO_STATISTICS = 160_000;

/**
 * Reads the books over a session in the target. First who is there, then the counters: a backend publishes what it counted
 * before it disappears from the list, so that whoever is not listed is counted completely.
 * @param wait on PostgreSQL 14, up to 500 ms, for counters that are current.
 */
export async function readAccounts(session: Session, { wait }: { wait: boolean }): Promise<ServerAccounts> {
  const [[now] = []] = (await session.queryAll([NOW])) as [
    { now: string; version: number; configuredAt: string }[],
  ];
  const visitors = await session.query<Visitor>(VISITORS);
  const isCurrent = (now?.version ?? 0) >= 150_000 || (wait && (await areCountersCurrent(session)));
  const io = (now?.version ?? 0) >= WITH_IO_STATISTICS ? [WALSENDER_BLOCKS] : [];
  const [databases, [own] = [], [used] = []] = (await session.queryAll([DATABASES, OWN_DATABASE, ...io])) as [
    (Omit<DatabaseAccount, 'ownSessions'> & { oid: number })[],
    Pick<ServerAccounts, 'largeObjectRows' | 'sequenceAccesses' | 'prepared' | 'countsRows'>[],
    { blocks: number | null }[]?,
  ];
  if (!now || !own) throw new Error('a query that always has a row had none');
  const { address } = session;
  const ours = ownBackendPids(address);
  return {
    ...own,
    at: now.now,
    isCurrent,
    configuredAt: now.configuredAt,
    walsenderBlocks: io.length === 0 ? null : (used?.blocks ?? 0),
    visitors: visitors.filter(({ pid }) => !ours.has(pid)),
    databases: new Map(
      databases.map(({ oid, ...account }) => [
        oid,
        { ...account, ownSessions: ownSessionsOpened({ address, database: account.name }) },
      ]),
    ),
  };
}

// A collector that is busy may write its file a little before it has read what was sent to it by then.
const PUBLISHED = `SELECT pg_stat_get_snapshot_timestamp() > $1::timestamptz + interval '20 ms' AS current`;
const ASK_EVERY_MS = 20;
const ASK_FOR_MS = 2_000;

/** Waits until the collector of PostgreSQL 14 has published its counters again. */
async function areCountersCurrent(session: Session): Promise<boolean> {
  const [row] = await session.query<{ now: string }>(`SELECT clock_timestamp()::text AS now`);
  const deadline = performance.now() + ASK_FOR_MS;
  while (performance.now() < deadline) {
    const [published] = await session.query<{ current: boolean }>(PUBLISHED, [row?.now]);
    if (published?.current) return true;
    await delay(ASK_EVERY_MS);
  }
  return false;
}
