import type { Session } from '../../postgres/connection/session.ts';
import { waitForCounters } from '../database-state.ts';
import type { OnlinePlan } from './online-plan.ts';

/** Rows written so far, by table, as the server's counters say. */
export interface WriteCounters {
  /** By OID. */
  readonly tables: ReadonlyMap<number, TableCounters>;
  /** Identifies the last reset of the counters. */
  readonly since: string;
  /** The database has large objects, which are not replicated, and whose writes count for no table of the users'. */
  readonly largeObjects: boolean;
}

interface TableCounters {
  readonly name: string;
  readonly inserted: string;
  /** Rows updated and deleted. */
  readonly changed: string;
}

const TABLES = `
SELECT relid::int8 AS oid, quote_ident(schemaname) || '.' || quote_ident(relname) AS name,
       n_tup_ins::text AS inserted, (n_tup_upd + n_tup_del)::text AS changed
  FROM pg_stat_user_tables WHERE schemaname !~ '^pg_(temp|toast)'`;
const SINCE = `
SELECT concat_ws(' ', extract(epoch FROM d.stats_reset),
                      (SELECT extract(epoch FROM a.stats_reset) FROM pg_stat_archiver a)) AS since,
       EXISTS (SELECT FROM pg_largeobject_metadata) AS "largeObjects"
  FROM pg_stat_database d WHERE d.datname = current_database()`;

/** Reads the counters. @param session in the target. */
export async function readWriteCounters(session: Session): Promise<WriteCounters> {
  type Row = TableCounters & { readonly oid: string; readonly since: string; readonly largeObjects: boolean };
  const [rows = [], [head] = []] = await session.queryAll<Row>([TABLES, SINCE]);
  return {
    tables: new Map(rows.map((row) => [Number(row.oid), row])),
    since: head?.since ?? '',
    largeObjects: head?.largeObjects ?? false,
  };
}

/** Rows that were written and are not replicated. */
export interface UnfollowedWrites {
  /** A table, or `large objects`. */
  readonly name: string;
  /** null: the counters do not say it. */
  readonly rows: number | null;
}

/**
 * Counts, by table, the rows that were written and are not replicated: all rows of those that the clone does not follow, and changed
 * rows of those that only get new ones. A reset of the counters counts as a write of all.
 */
export function writtenUnfollowed(
  before: WriteCounters,
  after: WriteCounters,
  plan: OnlinePlan,
): UnfollowedWrites[] {
  const kinds = watchedKinds(plan);
  const isReset = before.since !== after.since;
  const written = [...after.tables].flatMap(([oid, now]): UnfollowedWrites[] => {
    const kind = kinds(oid);
    if (kind === 'replicated') return [];
    const then = before.tables.get(oid) ?? { inserted: '0', changed: '0' };
    const inserted = kind === 'unfollowed' ? Number(now.inserted) - Number(then.inserted) : 0;
    const rows = inserted + Number(now.changed) - Number(then.changed);
    if (isReset) return [{ name: now.name, rows: null }];
    return rows === 0 ? [] : [{ name: now.name, rows }];
  });
  return after.largeObjects ? [...written, { name: 'large objects', rows: null }] : written;
}

function watchedKinds({ tables }: OnlinePlan): (oid: number) => 'replicated' | 'inserts' | 'unfollowed' {
  const followed = new Map(tables.map((table) => [table.oid, table.insertsOnly]));
  return (oid) => {
    const insertsOnly = followed.get(oid);
    return insertsOnly === undefined ? 'unfollowed' : insertsOnly ? 'inserts' : 'replicated';
  };
}

/**
 * Waits until the counters include those of sessions that have ended, if there is a table that the counters are needed for.
 * PostgreSQL 14 counts late.
 */
export async function waitForUnfollowed(
  { tables }: WriteCounters,
  plan: OnlinePlan,
  versionNum: number,
): Promise<void> {
  const kinds = watchedKinds(plan);
  if ([...tables.keys()].some((oid) => kinds(oid) !== 'replicated')) await waitForCounters(versionNum);
}
