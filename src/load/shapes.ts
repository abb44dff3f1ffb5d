import { LOCK_MODES, type LockMode } from '../postgres/lock-modes.ts';

/** A transaction of the target as it was seen at one moment. */
export interface SeenTransaction {
  /** The same for all sightings of one transaction. */
  readonly key: string;
  /** null if the role may not see it. */
  readonly ageMs: number | null;
  readonly locks: readonly SeenLock[];
}

export interface SeenLock {
  readonly relation: number;
  readonly mode: LockMode;
  readonly granted: boolean;
}

/** What the server counted while the transactions were looked at. */
export interface CountedTraffic {
  /** Number of times that the locks were read. */
  readonly readings: number;
  readonly windowMs: number;
  /** Transactions of others that ended in the target. */
  readonly transactions: number;
  /** Rows that were updated or deleted, by relation. */
  readonly changedRows: ReadonlyMap<number, number>;
  /** Those that the server counted, whether their locks were seen or not. */
  readonly called: readonly CalledStatement[];
}

/** A statement, and the tables that it locks, in this order. */
export interface CalledStatement {
  readonly locks: ReadonlyMap<number, LockMode>;
  readonly perSecond: number;
}

/** One kind of transaction: the locks that it takes, in their order, and how often it comes. */
export interface Shape {
  readonly steps: readonly ShapeStep[];
  readonly perSecond: number;
  /** From its first lock to its end. */
  readonly holdMs: number;
  /** Pairs of relations of which it was not seen which one comes first. */
  readonly unordered: readonly (readonly [number, number])[];
}

export interface ShapeStep {
  readonly relation: number;
  readonly mode: LockMode;
  /** Existing rows that one transaction changes on average. */
  readonly rows: number;
}

/** A wait while another lock is held proves the order, and so does a transaction seen again with one lock more. */
const WEIGHT = { heldAlone: 1, waited: 5, seenAgain: 10 };
/** The order of a pair counts as seen from this weight on, if the opposite has at most a third of it. */
const ENOUGH = 3;

/** Folds what was seen of the target's transactions into kinds of transactions. */
export function foldShapes(seen: readonly SeenTransaction[], counted: CountedTraffic): Shape[] {
  const kinds = kindsOf(seen, counted.windowMs / Math.max(counted.readings, 1));
  const order = orderOf(seen);
  const inAll = (counted.transactions * 1000) / counted.windowMs;
  const unseen = unseenAmong(counted.called, kinds, inAll);
  const perSecond = Math.max(inAll - unseen.reduce((sum, each) => sum + each.perSecond, 0), 0);
  const concurrency = seen.length / Math.max(counted.readings, 1);
  const meanMs = perSecond > 0 ? (concurrency * 1000) / perSecond : 0;
  const rateOf = (count: number, holdMs: number) => (count / counted.readings / holdMs) * 1000;
  const whole = kinds.flatMap(({ count, wholeMs }) => (wholeMs === null ? [] : rateOf(count, wholeMs)));
  const others = kinds.flatMap(({ count, wholeMs, ageMs }) =>
    wholeMs === null ? [{ count, durationMs: ageMs ?? meanMs }] : [],
  );
  const left = Math.max(perSecond - whole.reduce((sum, rate) => sum + rate, 0), 0);
  const stretch = stretchOf(others, counted.readings, left);
  const rated = kinds.map((kind) => {
    const holdMs = Math.max(kind.wholeMs ?? (kind.ageMs ?? meanMs) * stretch, SHORTEST_MS);
    return { ...kind, holdMs, perSecond: rateOf(kind.count, holdMs) };
  });
  const all = [...rated, ...unseen];
  const writers = new Map<number, number>();
  for (const { locks, perSecond } of all)
    for (const [relation, mode] of locks)
      if (writesRows(mode)) writers.set(relation, (writers.get(relation) ?? 0) + perSecond);
  const rowsOf = (relation: number, mode: LockMode) => {
    const changed = ((counted.changedRows.get(relation) ?? 0) * 1000) / counted.windowMs;
    return writesRows(mode) ? changed / (writers.get(relation) ?? 1) : 0;
  };
  return all.map(({ locks, perSecond, holdMs, ...kind }) => {
    const isOrdered = !('count' in kind);
    const { sorted, unordered } = isOrdered
      ? { sorted: [...locks.keys()], unordered: [] }
      : sort([...locks.keys()], order);
    const steps = sorted.map((relation) => {
      const mode = locks.get(relation) ?? 'ACCESS SHARE';
      return { relation, mode, rows: rowsOf(relation, mode) };
    });
    return { steps, perSecond, holdMs, unordered };
  });
}

/** What takes no longer than this between two readings is not seen for sure. */
const SHORTEST_MS = 0.1;

/**
 * Returns the statements whose locks no transaction was seen to hold: they take so little time that they fall between the readings. Each
 * counts as a transaction of its own, and together they are no more than the server counted.
 */
function unseenAmong(
  called: readonly CalledStatement[],
  kinds: readonly Pick<Kind, 'locks'>[],
  perSecond: number,
): (CalledStatement & { holdMs: number })[] {
  const holds = (kind: Pick<Kind, 'locks'>, [relation, mode]: [number, LockMode]) => {
    const held = kind.locks.get(relation);
    return held !== undefined && LOCK_MODES.indexOf(held) >= LOCK_MODES.indexOf(mode);
  };
  const missing = called.filter(
    ({ locks }) => !kinds.some((kind) => [...locks].every((lock) => holds(kind, lock))),
  );
  const together = missing.reduce((sum, each) => sum + each.perSecond, 0);
  if (together === 0 || perSecond === 0) return [];
  const share = Math.min(perSecond / together, 1);
  return missing.map(({ locks, perSecond }) => ({
    locks,
    perSecond: perSecond * share,
    holdMs: SHORTEST_MS,
  }));
}

interface Kind {
  /** The strongest mode of each relation. */
  readonly locks: ReadonlyMap<number, LockMode>;
  /** Number of sightings. */
  readonly count: number;
  /** Mean age of those that were seen. */
  readonly ageMs: number | null;
  /** Mean age when they were seen for the last time, if they last so long that they are seen several times; else null. */
  readonly wholeMs: number | null;
}

/** Sightings of one transaction from which on its last one says how long it lasted. */
const SEEN_THROUGH = 3;

function kindsOf(seen: readonly SeenTransaction[], intervalMs: number): Kind[] {
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
  return [...kinds.values()].map(({ locks, count, ages }) => {
    const transactions = [...ages.values()];
    const isSeenThrough = ages.size > 0 && count / ages.size >= SEEN_THROUGH;
    const lastMs = meanOf(transactions.map((each) => Math.max(...each)));
    return {
      ...{ locks, count, ageMs: meanOf(transactions.flat()) },
      wholeMs: isSeenThrough && lastMs !== null ? lastMs + intervalMs / 2 : null,
    };
  });
}

function meanOf(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/**
 * A transaction that is met at a random moment is half over on average if all take the same time, and has its mean duration behind it
 * if durations vary as those of independent events do. The number of transactions that ended says by how much; but many of those may have
 * locked no table.
 */
function stretchOf(
  kinds: readonly { count: number; durationMs: number }[],
  readings: number,
  perSecond: number,
): number {
  if (perSecond === 0) return 1;
  let atAge = 0;
  for (const { count, durationMs } of kinds) atAge += (count / readings / Math.max(durationMs, 0.1)) * 1000;
  return Math.min(Math.max(atAge / perSecond, 0.5), 2);
}

function writesRows(mode: LockMode): boolean {
  return LOCK_MODES.indexOf(mode) >= LOCK_MODES.indexOf('ROW EXCLUSIVE');
}

/** How strongly it was seen that the first relation of a pair is locked before the second. */
type Order = (first: number, second: number) => number;

function orderOf(seen: readonly SeenTransaction[]): Order {
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

function sort(relations: readonly number[], order: Order): Pick<Shape, 'unordered'> & { sorted: number[] } {
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
