import type { Caveat, DataSection } from '../model/report.ts';
import type { Session } from '../postgres/connection/session.ts';
import { waitUntil } from '../postgres/session-helpers.ts';

/** The server's counters of one relation, since its statistics began. */
export interface WrittenCounters {
  /** Rows that were written, those of transactions and savepoints that were rolled back included. */
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
  /** Committed rows of all three kinds together, since the last ANALYZE. */
  readonly committed: number;
  /** How often it was analyzed: each time `committed` begins again. */
  readonly analyzed: number;
}

/** The columns of a query of pg_class, as `c`, that WrittenCounters are read from. */
export const ROW_COUNTERS = `
  pg_catalog.pg_stat_get_tuples_inserted(c.oid)::float8 as inserted, pg_catalog.pg_stat_get_tuples_updated(c.oid)::float8 as updated,
  pg_catalog.pg_stat_get_tuples_deleted(c.oid)::float8 as deleted, pg_catalog.pg_stat_get_mod_since_analyze(c.oid)::float8 as committed,
  (pg_catalog.pg_stat_get_analyze_count(c.oid) + pg_catalog.pg_stat_get_autoanalyze_count(c.oid))::float8 as analyzed`;

export const NOTHING_WRITTEN: WrittenCounters = {
  inserted: 0,
  updated: 0,
  deleted: 0,
  committed: 0,
  analyzed: 0,
};

type Written = Omit<DataSection['written'][number], 'relation'>;

/**
 * Rows that were written between two readings and committed. The server counts each kind together with the rows that were rolled back,
 * and the committed rows of all kinds as one sum. The two suffice if all or none was committed, or one kind alone was written; else the
 * difference in rows has to be known. In other cases, and after ANALYZE, the numbers are upper bounds.
 * @param growth rows more than before, counted; null if they were not.
 * @param maybeRolledBack a part of the command was rolled back, as far as that was seen.
 * @returns undefined if nothing was committed.
 */
export function committedRows(
  then: WrittenCounters,
  now: WrittenCounters,
  growth: number | null,
  maybeRolledBack: boolean,
): Written | undefined {
  const inserted = Math.max(0, now.inserted - then.inserted);
  const updated = Math.max(0, now.updated - then.updated);
  const deleted = Math.max(0, now.deleted - then.deleted);
  const attempted = { inserted, updated, deleted };
  const all = inserted + updated + deleted;
  if (all === 0) return undefined;
  if (now.analyzed !== then.analyzed) return maybeRolledBack ? { ...attempted, atMost: true } : attempted;
  const committed = now.committed - then.committed;
  if (committed >= all) return attempted;
  if (committed <= 0) return undefined;
  const isPossible = (rows: Written) =>
    [rows.inserted, rows.updated, rows.deleted].every((count) => Number.isInteger(count) && count >= 0) &&
    rows.inserted <= inserted &&
    rows.updated <= updated &&
    rows.deleted <= deleted;
  const split = splitOf(attempted, committed, growth);
  if (split && isPossible(split)) return split;
  return {
    inserted: Math.min(inserted, committed),
    updated: Math.min(updated, committed),
    deleted: Math.min(deleted, committed),
    atMost: true,
  };
}

/** The rows of each kind, if a sum can consist of them in one way only. */
function splitOf(attempted: Written, sum: number, growth: number | null): Written | undefined {
  const kinds = (['inserted', 'updated', 'deleted'] as const).filter((kind) => attempted[kind] > 0);
  const [only] = kinds;
  const none = { inserted: 0, updated: 0, deleted: 0 };
  if (kinds.length === 1 && only) return { ...none, [only]: sum };
  if (growth === null) return undefined;
  if (attempted.updated === 0) return { ...none, inserted: (sum + growth) / 2, deleted: (sum - growth) / 2 };
  if (attempted.deleted === 0) return { ...none, inserted: growth, updated: sum - growth };
  if (attempted.inserted === 0) return { ...none, deleted: -growth, updated: sum + growth };
  return undefined;
}

/**
 * A session has reported its writes once it is gone from pg_stat_activity. Before PostgreSQL 15 the counts come from a file up to
 * half a second old besides. Later versions have no such file, and give no time.
 */
const COUNTS_ARE_OLD = `
select coalesce(pg_catalog.pg_stat_get_snapshot_timestamp() < $1::timestamptz, false) or exists (
    select from pg_catalog.pg_stat_activity a
    where a.datname = pg_catalog.current_database() and a.pid <> pg_catalog.pg_backend_pid()
      and coalesce(a.backend_type, 'client backend') = 'client backend'
      and coalesce(a.application_name, '') not like 'safemigrate %') as old,
  pg_catalog.pg_stat_clear_snapshot()::text as cleared`;
const COUNTS_COME = { everyMs: 20, timeoutMs: 3000 };

/** Waits until the server has counted all writes before now. @returns a caveat if it has not. */
export async function currentCounts(session: Session): Promise<Caveat[]> {
  const [now] = await session.query<{ now: string }>('select pg_catalog.clock_timestamp()::text as now');
  const isOld = async () => (await session.query<{ old: boolean }>(COUNTS_ARE_OLD, [now?.now]))[0]?.old;
  if (await waitUntil(async () => !(await isOld()), COUNTS_COME)) return [];
  const reason =
    'the server had not counted all written rows yet: the last ones of the command may be missing';
  return [{ path: 'data.written', kind: 'unmeasured', reason }];
}
