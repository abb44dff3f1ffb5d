import { LOCK_MODES, type LockMode } from '../postgres/lock-modes.ts';
import type { SeenTransaction } from './lock-order.ts';

/** Transactions that hold the same locks, as they were met at the readings. */
export interface Kind {
  /** The strongest mode of each relation. */
  readonly locks: ReadonlyMap<number, LockMode>;
  /** Number of sightings. */
  readonly count: number;
  /** Mean age of those that were seen. */
  readonly ageMs: number | null;
  readonly medianMs: number | null;
  /** Mean age when they were seen for the last time, if they last so long that they are seen several times; else null. */
  readonly wholeMs: number | null;
}

/** Readings from which on the last sighting of a transaction says how long it lasted. */
const SEEN_THROUGH = 3;

/** The sightings of one transaction, by age; of those whose age may not be seen there are none. */
type Sightings = readonly number[];

/**
 * Sorts sightings by the locks that were held. The same locks may be taken by fast transactions and by slow ones, and a slow one is met far
 * more often: both are kinds of their own, since one duration for all would make the fast ones disappear.
 * @param intervalMs between two readings
 */
export function kindsOf(seen: readonly SeenTransaction[], intervalMs: number): Kind[] {
  const kinds = new Map<
    string,
    { locks: Map<number, LockMode>; count: number; ages: Map<string, number[]> }
  >();
  for (const { key: transaction, locks, ageMs } of seen) {
    const strongest = new Map<number, LockMode>();
    for (const { relation, mode } of locks) {
      const known = strongest.get(relation);
      if (known === undefined || LOCK_MODES.indexOf(mode) > LOCK_MODES.indexOf(known))
        strongest.set(relation, mode);
    }
    if (strongest.size === 0) continue;
    const key = JSON.stringify([...strongest].sort(([one], [other]) => one - other));
    const kind = kinds.get(key) ?? { locks: strongest, count: 0, ages: new Map<string, number[]>() };
    kind.count++;
    if (ageMs !== null) kind.ages.set(transaction, [...(kind.ages.get(transaction) ?? []), ageMs]);
    kinds.set(key, kind);
  }
  const isLong = (ages: Sightings) =>
    ages.length >= SEEN_THROUGH || Math.max(...ages) >= SEEN_THROUGH * intervalMs;
  return [...kinds.values()].flatMap(({ locks, count, ages }) => {
    const long = [...ages.values()].filter(isLong);
    const short = [...ages.values()].filter((each) => !isLong(each));
    const shortCount = count - long.flat().length;
    return [
      ...(long.length > 0 ? [longKind(locks, long, intervalMs)] : []),
      ...(shortCount > 0 ? [shortKind(locks, short.flat(), shortCount)] : []),
    ];
  });
}

function longKind(
  locks: ReadonlyMap<number, LockMode>,
  transactions: readonly Sightings[],
  intervalMs: number,
): Kind {
  const lastMs = meanOf(transactions.map((each) => Math.max(...each))) ?? 0;
  const wholeMs = lastMs + intervalMs / 2;
  return { ...shortKind(locks, transactions.flat(), transactions.flat().length), wholeMs };
}

function shortKind(locks: ReadonlyMap<number, LockMode>, ages: Sightings, count: number): Kind {
  return { locks, count, ageMs: meanOf(ages), medianMs: medianOf(ages), wholeMs: null };
}

function meanOf(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function medianOf(values: readonly number[]): number | null {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? null;
}
