import { LOCK_MODES, type LockMode } from '../postgres/lock-modes.ts';

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
      if (known === undefined || !isAtLeast(known, mode)) strongest.set(relation, mode);
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

/** Tells if a mode is as strong as another one, or stronger. */
export function isAtLeast(mode: LockMode, other: LockMode): boolean {
  return LOCK_MODES.indexOf(mode) >= LOCK_MODES.indexOf(other);
}

function meanOf(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function medianOf(values: readonly number[]): number | null {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? null;
}

/** A transaction of the target as it was seen at one moment. */
export interface SeenTransaction {
  /** The same for all sightings of one transaction. */
  readonly key: string;
  /** null if the role may not see it. */
  readonly ageMs: number | null;
  readonly locks: readonly {
    readonly relation: number;
    readonly mode: LockMode;
    readonly granted: boolean;
  }[];
}

/** A wait while another lock is held proves the order, and so does a transaction seen again with one lock more. */
const WEIGHT = { heldAlone: 1, waited: 5, seenAgain: 10 };
/** The order of a pair counts as seen from this weight on, if the opposite has at most a third of it. */
const ENOUGH = 3;

/** How strongly it was seen that the first relation of a pair is locked before the second. */
export type LockOrder = (first: number, second: number) => number;

/** Reads the order in which transactions lock relations from what they held when they were seen. */
export function lockOrderOf(seen: readonly SeenTransaction[]): LockOrder {
  const weights = new Map<string, number>();
  const add = (first: number, second: number, weight: number) => {
    const key = `${first} ${second}`;
    weights.set(key, (weights.get(key) ?? 0) + weight);
  };
  const together = pairsTogether(seen);
  const firstSeen = new Map<string, Map<number, number>>();
  for (const [at, { key, locks }] of seen.entries()) {
    const held = new Set(locks.filter(({ granted }) => granted).map(({ relation }) => relation));
    for (const { relation, granted } of locks)
      if (!granted && !held.has(relation)) for (const first of held) add(first, relation, WEIGHT.waited);
    for (const first of held)
      for (const second of together.get(first) ?? [])
        if (!held.has(second)) add(first, second, WEIGHT.heldAlone);
    const known = firstSeen.get(key) ?? new Map<number, number>();
    firstSeen.set(key, known);
    for (const relation of held) if (!known.has(relation)) known.set(relation, at);
  }
  for (const known of firstSeen.values())
    for (const [first, firstAt] of known)
      for (const [second, secondAt] of known) if (firstAt < secondAt) add(first, second, WEIGHT.seenAgain);
  return (first, second) => weights.get(`${first} ${second}`) ?? 0;
}

/** The relations that some transaction locks together with this one. */
function pairsTogether(seen: readonly SeenTransaction[]): ReadonlyMap<number, ReadonlySet<number>> {
  const together = new Map<number, Set<number>>();
  for (const { locks } of seen) {
    const relations = new Set(locks.map(({ relation }) => relation));
    for (const relation of relations) {
      const others = together.get(relation) ?? new Set();
      together.set(relation, others);
      for (const other of relations) if (other !== relation) others.add(other);
    }
  }
  return together;
}

/** Brings relations that a transaction locks together into their order. @returns also the pairs whose order was not seen */
export function sortByLockOrder(
  relations: readonly number[],
  order: LockOrder,
): { readonly sorted: number[]; readonly unordered: [number, number][] } {
  const lead = (relation: number) =>
    relations.reduce((sum, other) => sum + Math.sign(order(relation, other) - order(other, relation)), 0);
  const sorted = [...relations].sort((one, other) => lead(other) - lead(one) || one - other);
  const unordered = sorted.flatMap((first, at) =>
    sorted.slice(at + 1).flatMap((second): [number, number][] => {
      const [forth, back] = [order(first, second), order(second, first)];
      return forth >= ENOUGH && forth >= 3 * back ? [] : [[first, second]];
    }),
  );
  return { sorted, unordered };
}
