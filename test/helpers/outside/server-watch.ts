import { Client } from 'pg';
import { identifier } from '../../../src/postgres/sql/quote.ts';
import { withClient } from '../client.ts';
import { until } from '../cutting.ts';
import { withDatabase } from '../target-state.ts';

/** A lock as another session of the server saw it in pg_locks, in one transaction. */
export interface SeenLock {
  readonly pid: number;
  readonly database: number;
  readonly relation: number;
  /** As the report writes it: `ACCESS EXCLUSIVE`. */
  readonly mode: string;
  /** Milliseconds since 1970, of the first and the last look that saw it. */
  readonly from: number;
  readonly to: number;
}

export interface ServerWatch {
  end(): Promise<SeenReadings>;
}

export interface SeenReadings {
  readonly locks: readonly SeenLock[];
  /** Position in the WAL at this time, in bytes. */
  walAt(time: number): number;
}

const DATABASE = 'watch';
/** Key of the advisory lock that ends the watch. */
const END = 5959;

/**
 * Looks every millisecond or so, and writes nothing: neither a row nor a transaction id. From another
 * database names cannot be resolved, so relations are numbers.
 */
const WATCH = `
CREATE FUNCTION watch(wanted oid[]) RETURNS TABLE (at timestamptz, wal pg_lsn, pid int, database oid, relation oid, mode text, transaction text)
LANGUAGE plpgsql AS $$
BEGIN
  LOOP
    RETURN QUERY
      WITH held AS MATERIALIZED (
        SELECT l.* FROM pg_locks l WHERE l.locktype = 'relation' AND l.granted AND l.mode <> 'AccessShareLock' AND l.relation = ANY(wanted)
      )
      SELECT clock_timestamp(), pg_current_wal_insert_lsn(), l.pid, l.database, l.relation, l.mode, l.virtualtransaction
      FROM (SELECT 1) AS always LEFT JOIN held l ON true;
    EXIT WHEN EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objid = ${END});
    PERFORM pg_sleep(0.001);
  END LOOP;
END $$;`;

interface Look {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly wal: number;
  readonly pid: number | null;
  readonly database: number;
  readonly relation: number;
  readonly mode: string;
  readonly transaction: string;
}

const LOOKS = `
SELECT extract(epoch FROM at)::float8 * 1000 AS at, (wal - '0/0')::float8 AS wal, pid, database::int, relation::int, mode, transaction
FROM watch($1)`;

/** @param relations OIDs, which a clone by a template shares with its target. */
export async function watchServer(url: string, relations: readonly number[]): Promise<ServerWatch> {
  const place = withDatabase(url, DATABASE);
  await withClient(url, (client) => client.query(`CREATE DATABASE ${identifier(DATABASE)}`));
  const watcher = new Client({ connectionString: place });
  await watcher.connect();
  await watcher.query(WATCH);
  const watching = watcher.query<Look>(LOOKS, [relations]);
  watching.catch(() => {});
  await until('the watch has begun', () =>
    withClient(url, async (client) => {
      const { rows } = await client.query(
        `SELECT FROM pg_stat_activity WHERE datname = '${DATABASE}' AND state = 'active'`,
      );
      return rows.length > 0;
    }),
  );
  return {
    async end() {
      const looks = await withClient(place, async (client) => {
        await client.query(`SELECT pg_advisory_lock(${END})`);
        return (await watching).rows;
      });
      await watcher.end();
      await withClient(url, (client) => client.query(`DROP DATABASE ${identifier(DATABASE)}`));
      return {
        locks: locksOf(looks),
        walAt: (time) => (looks.findLast(({ at }) => at <= time) ?? looks[0])?.wal ?? Number.NaN,
      };
    },
  };
}

function locksOf(looks: readonly Look[]): SeenLock[] {
  const locks = new Map<string, SeenLock & { to: number }>();
  for (const { at, pid, database, relation, mode, transaction } of looks) {
    if (pid === null) continue;
    const key = [pid, transaction, database, relation, mode].join();
    const lock = locks.get(key);
    if (lock) lock.to = at;
    else locks.set(key, { pid, database, relation, mode: reported(mode), from: at, to: at });
  }
  return [...locks.values()];
}

/** `ShareUpdateExclusiveLock` is `SHARE UPDATE EXCLUSIVE` in the documentation. */
function reported(mode: string): string {
  return mode
    .replace(/Lock$/, '')
    .replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ')
    .toUpperCase();
}
