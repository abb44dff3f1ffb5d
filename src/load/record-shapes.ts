import { setTimeout as delay } from 'node:timers/promises';
import type { ProfiledShapes } from '../model/profile-model.ts';
import {
  FIRST_USER_OID,
  IS_TABLE,
  QUALIFIED_NAME,
  RELATIONS_AND_SCHEMAS,
} from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { LOCK_MODES, type LockMode, lockModeOf } from '../postgres/lock-modes.ts';
import { calledBetween, readStatementCounts } from './called-statements.ts';
import type { SeenTransaction } from './seen-transactions.ts';
import { type CalledStatement, type CountedTraffic, foldShapes, type Shape } from './shapes.ts';

/** Production's traffic without its values. */
export interface RecordedTraffic {
  readonly shapes: readonly Shape[];
  /** Qualified and quoted names of the relations. */
  readonly names: ReadonlyMap<number, string>;
  /** Client sessions in the target. */
  readonly clients: number;
  readonly perSecond: number;
  readonly windowMs: number;
  readonly readings: number;
  /** Why statements that are too short to be seen are known by the counters of their tables only; null if they were counted themselves. */
  readonly uncounted: string | null;
}

// pg_locks has the locks that are taken by the fast path, too. Views and matviews cannot be locked by LOCK TABLE. Ages are those at the
// time when the locks were read: what follows takes longer than many a transaction. The relations of the system have OIDs below 16384;
// asking for their schemas, and for sessions by the view, took a third more of the server's time.
const LOCKS = `
WITH held AS MATERIALIZED (
  SELECT pid, virtualtransaction, relation, mode, granted, clock_timestamp() AS at FROM pg_locks
   WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
SELECT l.pid, a.pid || ' ' || coalesce(a.xact_start::text, l.virtualtransaction) AS key,
       CASE WHEN a.xact_start <= min(l.at) THEN extract(epoch FROM min(l.at) - a.xact_start)::float8 * 1000 END AS "ageMs",
       json_agg(json_build_array(l.relation::int8, l.mode, l.granted)) AS locks
  FROM held l
  JOIN pg_class c ON c.oid = l.relation
  JOIN pg_stat_get_activity(NULL) a ON a.pid = l.pid
 WHERE c.oid >= ${FIRST_USER_OID} AND ${IS_TABLE} AND c.relpersistence <> 't'
   AND coalesce(a.backend_type, 'client backend') = 'client backend' AND a.application_name NOT LIKE 'safemigrate%'
 GROUP BY l.pid, 2, a.xact_start`;

const PREPARED = 'safemigrate_locks';

const COUNTERS = `
SELECT (SELECT (xact_commit + xact_rollback)::float8 FROM pg_stat_database WHERE datname = current_database()) AS transactions,
       (SELECT count(*)::int FROM pg_stat_activity
         WHERE datname = current_database() AND coalesce(backend_type, 'client backend') = 'client backend'
           AND application_name NOT LIKE 'safemigrate%') AS clients,
       extract(epoch FROM clock_timestamp())::float8 * 1000 AS "atMs"`;

const TABLES = `
SELECT relid::int8 AS relation, (n_tup_upd + n_tup_del)::float8 AS changed, (n_tup_upd + n_tup_del + n_tup_ins)::float8 AS written,
       (seq_scan + coalesce(idx_scan, 0))::float8 AS scans
  FROM pg_stat_user_tables`;

const NAMES = `
SELECT c.oid::int8 AS oid, ${QUALIFIED_NAME} AS name
  FROM ${RELATIONS_AND_SCHEMAS} WHERE c.oid = ANY ($1::oid[])`;

const SHORTEST_PAUSE_MS = 25;
/** Reading the locks holds up everybody who takes one, so between two readings there is this many times the time that one takes at least. */
const PAUSE_FACTOR = 20;
/** The server's counters are up to a second late; those of PostgreSQL 14 half a second. */
const COUNTERS_LATE_MS = 1100;

/** Rows and scans that the server has counted; an UPDATE scans for its rows, too. */
interface TableCounts {
  readonly changed: number;
  readonly written: number;
  readonly scans: number;
}

/**
 * Watches the target's transactions for a while: which relations they lock together, in which order, for how long, and how often. It
 * reads catalogues and statistics only.
 * @param session in the target.
 */
export async function recordShapes(
  session: Session,
  windowMs: number,
  signal: AbortSignal,
): Promise<RecordedTraffic> {
  const firstCalls = await readStatementCounts(session);
  // Planning the query takes ten times as long as running it.
  await session.query(`PREPARE ${PREPARED} AS ${LOCKS}`);
  const first = await readCounters(session);
  const seen: SeenTransaction[] = [];
  let readings = 0;
  let shortestMs = Number.POSITIVE_INFINITY;
  const end = performance.now() + windowMs;
  while (performance.now() < end && !signal.aborted) {
    const asked = performance.now();
    seen.push(...(await readLocks(session)));
    readings++;
    shortestMs = Math.min(shortestMs, performance.now() - asked);
    const pause = Math.max(SHORTEST_PAUSE_MS, PAUSE_FACTOR * shortestMs);
    await delay(Math.min(pause, Math.max(end - performance.now(), 0)), undefined, { signal }).catch(() => {});
  }
  await session.query(`DEALLOCATE ${PREPARED}`);
  await delay(COUNTERS_LATE_MS, undefined, { signal }).catch(() => {});
  // The end of this statement reports our own transactions, which are subtracted below: a session does that once a second, and not while it is idle.
  const lastCalls = await readStatementCounts(session);
  const last = await readCounters(session);
  const called = await calledBetween(session, firstCalls, lastCalls, last.atMs - first.atMs);
  const counted = countedBetween(first, last, readings, called);
  const shapes = foldShapes(seen, counted);
  const relations = [...new Set(shapes.flatMap(({ steps }) => steps.map(({ relation }) => relation)))];
  const named = await session.query<{ oid: string; name: string }>(NAMES, [relations]);
  return {
    shapes,
    names: new Map(named.map(({ oid, name }) => [Number(oid), name])),
    clients: last.clients,
    perSecond: (counted.transactions * 1000) / counted.windowMs,
    windowMs,
    readings,
    uncounted: 'unreadable' in lastCalls ? lastCalls.unreadable : null,
  };
}

async function readLocks(session: Session): Promise<SeenTransaction[]> {
  const rows = await session.query<{
    key: string;
    ageMs: number | null;
    locks: [relation: number, mode: string, granted: boolean][];
  }>(`EXECUTE ${PREPARED}`);
  return rows.map(({ key, ageMs, locks }) => ({
    key,
    ageMs,
    locks: locks.flatMap(([relation, mode, granted]) => {
      const known = lockModeOf(mode);
      return known === undefined ? [] : [{ relation, mode: known, granted }];
    }),
  }));
}

type Counters = Awaited<ReturnType<typeof readCounters>>;

async function readCounters(session: Session) {
  const [row] = await session.query<{ transactions: number; clients: number; atMs: number }>(COUNTERS);
  if (!row) throw new Error('a query that has exactly one row had none');
  const tables = await session.query<TableCounts & { relation: string }>(TABLES);
  return {
    ...row,
    own: session.transactions,
    tables: new Map(tables.map(({ relation, ...counts }) => [Number(relation), counts])),
  };
}

function countedBetween(
  first: Counters,
  last: Counters,
  readings: number,
  called: readonly CalledStatement[],
): CountedTraffic {
  const own = last.own - first.own;
  const windowMs = last.atMs - first.atMs;
  const tables = [...last.tables].map(([relation, now]) => {
    const { changed, written, scans } = first.tables.get(relation) ?? NOTHING;
    return {
      relation,
      changed: now.changed - changed,
      written: now.written - written,
      scans: now.scans - scans,
    };
  });
  return {
    readings,
    windowMs,
    transactions: Math.max(last.transactions - first.transactions - own, 0),
    changedRows: new Map(tables.map(({ relation, changed }) => [relation, changed])),
    called: [...called, ...tables.flatMap((table) => unexplainedUses(table, windowMs, called))],
  };
}

const NOTHING: TableCounts = { changed: 0, written: 0, scans: 0 };

/**
 * Uses that the server counted for a table and no known statement explains. An UPDATE or DELETE scans for its rows, and each inserted row and
 * each scan is taken for a statement.
 */
function unexplainedUses(
  { relation, changed, written, scans }: TableCounts & { readonly relation: number },
  windowMs: number,
  called: readonly CalledStatement[],
): CalledStatement[] {
  const changing = scans > 0 ? Math.min(changed, scans) : changed;
  const uses: [LockMode, number][] = [
    ['ROW EXCLUSIVE', written - changed + changing],
    ['ACCESS SHARE', scans - changing],
  ];
  return uses
    .filter(([mode, count]) => count > 0 && !called.some(({ locks }) => locks.get(relation) === mode))
    .map(([mode, count]) => ({ locks: new Map([[relation, mode]]), perSecond: (count * 1000) / windowMs }));
}

/** Returns recorded traffic as a profile holds it: with names, since OIDs are those of one server. */
export function shapesForProfile(recorded: RecordedTraffic): ProfiledShapes | null {
  const { shapes, names, windowMs, readings, clients, perSecond } = recorded;
  if (shapes.length === 0) return null;
  const nameOf = (oid: number) => names.get(oid) ?? String(oid);
  return {
    windowMs,
    readings,
    clients,
    perSecond: rounded(perSecond),
    kinds: shapes.map(({ steps, perSecond, holdMs, unordered }) => ({
      steps: steps.map(({ relation, mode, rows }) => ({
        relation: nameOf(relation),
        mode,
        rows: rounded(rows),
      })),
      perSecond: rounded(perSecond),
      holdMs: rounded(holdMs),
      unordered: unordered.map(([one, other]): [string, string] => [nameOf(one), nameOf(other)]),
    })),
  };
}

/** Returns the traffic of a profile as if it had been recorded here. */
export function trafficOfProfile(profiled: ProfiledShapes): RecordedTraffic {
  const { kinds, windowMs, readings, clients, perSecond } = profiled;
  const all = [...new Set(kinds.flatMap(({ steps }) => steps.map(({ relation }) => relation)))];
  const names = new Map(all.map((name, index) => [index + 1, name]));
  const numberOf = (name: string) => all.indexOf(name) + 1;
  const shapes = kinds.map(({ steps, perSecond, holdMs, unordered }) => ({
    steps: steps.flatMap(({ relation, mode, rows }) => {
      const known = LOCK_MODES.find((each) => each === mode);
      return known === undefined ? [] : [{ relation: numberOf(relation), mode: known, rows }];
    }),
    perSecond,
    holdMs,
    unordered: unordered.map(([one, other]): [number, number] => [numberOf(one), numberOf(other)]),
  }));
  return { shapes, names, windowMs, readings, clients, perSecond, uncounted: null };
}

/** To four digits: more say nothing. */
function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
