import type { LockWaits } from '../model/lock-waits.ts';

/** Daily work of a target, by its own statistics. Pure: read-traffic.ts does the reading. */

/**
 * Settings that multiply max_locks_per_transaction to the locks that the server has room for. From version 19 on that is the exact
 * size (two of its own processes aside); earlier versions take more while shared memory is left, up to twice as many.
 */
export const LOCKING_SETTINGS = [
  'max_connections',
  'max_prepared_transactions',
  'max_wal_senders',
  'max_worker_processes',
  'autovacuum_worker_slots',
] as const;

/** Somebody whose transaction is open; what the role may not see is null. */
export interface OpenTransaction {
  readonly ageMs: number;
  readonly application: string | null;
  /** `active`, `idle in transaction`, `prepared`, … */
  readonly state: string | null;
}

/** A lock that an open transaction holds on a relation. */
export interface Holder extends OpenTransaction {
  readonly relation: string;
  /** Lock mode in the words of pg_locks: `AccessShareLock`. */
  readonly mode: string;
}

export interface Sessions {
  /** Sessions of the whole server that count against its limit, without ours. */
  readonly open: number;
  readonly max: number;
  /** Slots of `max` that an ordinary role does not get. */
  readonly reserved: number;
}

export interface Standby {
  readonly name: string;
  readonly synchronous: boolean;
  /** WAL that it has not replayed. */
  readonly lagBytes: number | null;
  readonly lagMs: number | null;
}

export interface Situation {
  readonly sessions: Sessions;
  /** Sessions whose state and query the role may not see. */
  readonly hiddenSessions: number;
  readonly oldestTransaction: OpenTransaction | null;
  readonly preparedTransactions: { readonly count: number; readonly oldestMs: number | null };
  /** null where the role may not see them. */
  readonly standbys: readonly Standby[] | null;
  /** Replication slots without a reader: they keep WAL on the disk. */
  readonly inactiveSlots: readonly string[];
  /** Logical slots of the database, whether somebody reads from them or not; missing in a profile. */
  readonly logicalSlots?: readonly string[];
  /** Relations that the lock table of the server has room for, and locks held in it; missing in profiles of earlier versions. */
  readonly lockTable?: { readonly capacity: number; readonly held: number | null };
  /** null before version 19; missing in profiles of servers before it. */
  readonly lockWaits?: LockWaits | null;
}

/** Counters since the statistics began. */
export interface RelationCounters {
  /** Scans that were begun, of the table and of its indexes; one statement may begin several. */
  readonly scans: number;
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
  /** The partitioned table that this is a partition of. */
  readonly partitionOf: string | null;
  /** When its own counters were last reset, by themselves or with all others; null if they never were, and before version 19. */
  readonly countedSinceMs: number | null;
}

/** One reading. */
export interface TrafficReading extends Situation {
  /** The server's clock, in ms since 1970. */
  readonly atMs: number;
  /** When all counters began, but for those of tables that were reset by themselves; null if the server does not know it. */
  readonly countedSinceMs: number | null;
  /** Transactions of the database that the server has counted since its statistics began. */
  readonly transactions: number | null;
  /** Transactions of the session that read this: the server counts nearly all of them when the session ends. */
  readonly ownTransactions: number;
  /** By qualified name; tables, materialized views and partitioned tables of users. */
  readonly relations: ReadonlyMap<string, RelationCounters>;
  /** Tables by the names of their indexes. */
  readonly tableOfIndex: ReadonlyMap<string, string>;
  readonly indexScans: ReadonlyMap<string, number>;
  /** The oldest of each relation and mode. */
  readonly holders: readonly Holder[];
}

export interface RelationRates {
  readonly readsPerSecond: number;
  readonly insertsPerSecond: number;
  /** Rows inserted, updated and deleted. */
  readonly writesPerSecond: number;
}

/** Rates over the whole time in which the server has counted. */
export interface Averages {
  readonly overMs: number;
  readonly transactionsPerSecond: number | null;
  readonly relations: ReadonlyMap<string, RelationRates>;
}

/** Two readings as one: what was counted in between, and the graver of the two situations. */
export interface TargetTraffic extends Situation {
  readonly sampledMs: number;
  /** null where the statistics were reset in between. */
  readonly transactionsPerSecond: number | null;
  readonly relations: ReadonlyMap<string, RelationRates>;
  /** Null if the time of the last statistics reset is unknown. */
  readonly average: Averages | null;
  /** Tables by the names of their indexes. */
  readonly tableOfIndex: ReadonlyMap<string, string>;
  /** Scans of indexes since the statistics began; missing in a profile. */
  readonly indexScans?: ReadonlyMap<string, number>;
  readonly holders: readonly Holder[];
}

/** Computes what was counted between two readings, each over a session that ended after it, without our own transactions. */
export function trafficBetween(first: TrafficReading, second: TrafficReading): TargetTraffic {
  const sampledMs = Math.max(0, Math.round(second.atMs - first.atMs));
  const rate = rateOver(sampledMs);
  const { atMs: _, countedSinceMs: __, ownTransactions: ___, transactions, ...latest } = second;
  return {
    ...latest,
    sessions: { ...second.sessions, open: Math.max(first.sessions.open, second.sessions.open) },
    oldestTransaction: oldest([first.oldestTransaction, second.oldestTransaction]),
    holders: [...first.holders, ...second.holders],
    sampledMs,
    transactionsPerSecond: ratePerSecond(first, transactions, rate),
    relations: withPartitions(second.relations, (name, now) => ratesOf(first.relations.get(name), now, rate)),
    average: averages(first, second),
  };
}

/** Returns the rate without our own transactions, of which the server may have counted fewer by then. */
function ratePerSecond(
  { transactions: first, ownTransactions }: TrafficReading,
  second: number | null,
  rate: Rate,
): number | null {
  return first === null || second === null || second < first
    ? null
    : rate(0, Math.max(0, second - first - ownTransactions));
}

function averages(
  first: TrafficReading,
  { atMs, countedSinceMs, transactions, relations }: TrafficReading,
): Averages | null {
  // Counters that were reset between the two readings say nothing yet.
  if (countedSinceMs === null || countedSinceMs !== first.countedSinceMs || countedSinceMs >= atMs)
    return null;
  const rateSince = (sinceMs: number) => rateOver(atMs - sinceMs);
  return {
    overMs: Math.round(atMs - countedSinceMs),
    transactionsPerSecond: transactions === null ? null : rateSince(countedSinceMs)(0, transactions),
    relations: withPartitions(relations, (_, now) =>
      ratesOf(undefined, now, rateSince(now.countedSinceMs ?? countedSinceMs)),
    ),
  };
}

type Rate = (before: number, after: number) => number | null;

function rateOver(milliseconds: number): Rate {
  return (before, after) =>
    after >= before && milliseconds > 0 ? ((after - before) * 1000) / milliseconds : null;
}

export function oldest<T extends OpenTransaction>(transactions: readonly (T | null)[]): T | null {
  return transactions.reduce<T | null>(
    (found, each) => (each !== null && (found === null || each.ageMs > found.ageMs) ? each : found),
    null,
  );
}

/** @returns undefined for a relation whose counters were reset in between. */
function ratesOf(
  before: RelationCounters | undefined,
  now: RelationCounters,
  rate: Rate,
): RelationRates | undefined {
  const readsPerSecond = rate(before?.scans ?? 0, now.scans);
  const insertsPerSecond = rate(before?.inserted ?? 0, now.inserted);
  const updates = rate(before?.updated ?? 0, now.updated);
  const deletes = rate(before?.deleted ?? 0, now.deleted);
  if (readsPerSecond === null || insertsPerSecond === null || updates === null || deletes === null)
    return undefined;
  return { readsPerSecond, insertsPerSecond, writesPerSecond: insertsPerSecond + updates + deletes };
}

/** The server counts for partitions alone; who locks the partitioned table locks out the traffic of them all. */
function withPartitions(
  relations: ReadonlyMap<string, RelationCounters>,
  ratesOf: (name: string, now: RelationCounters) => RelationRates | undefined,
): Map<string, RelationRates> {
  const sums = new Map<string, RelationRates>();
  for (const [name, counters] of relations) {
    const rates = ratesOf(name, counters);
    if (!rates) continue;
    let above: string | null = name;
    while (above !== null) {
      sums.set(above, sum(sums.get(above), rates));
      above = relations.get(above)?.partitionOf ?? null;
    }
  }
  return sums;
}

function sum(one: RelationRates | undefined, other: RelationRates): RelationRates {
  if (!one) return other;
  return {
    readsPerSecond: one.readsPerSecond + other.readsPerSecond,
    insertsPerSecond: one.insertsPerSecond + other.insertsPerSecond,
    writesPerSecond: one.writesPerSecond + other.writesPerSecond,
  };
}
