import type { LockMode } from '../postgres/lock-modes.ts';
import {
  isAtLeast,
  type Kind,
  kindsOf,
  type LockOrder,
  lockOrderOf,
  type SeenTransaction,
  sortByLockOrder,
} from './seen-transactions.ts';

/** Counters of the server for the time in which the transactions were watched. */
export interface CountedTraffic {
  /** Number of times that the locks were read. */
  readonly readings: number;
  readonly windowMs: number;
  /** Transactions of others that ended in the target. */
  readonly transactions: number;
  /** Rows that were updated or deleted, by relation. */
  readonly changedRows: ReadonlyMap<number, number>;
  /** Statements that the server counted, including those whose locks were not seen. */
  readonly called: readonly CalledStatement[];
}

/** A statement, and the tables that it locks, in this order. */
export interface CalledStatement {
  readonly locks: ReadonlyMap<number, LockMode>;
  readonly perSecond: number;
}

/** One kind of transaction: the locks that it takes, in their order, and how often it comes. */
export interface Shape {
  readonly steps: readonly {
    readonly relation: number;
    readonly mode: LockMode;
    /** Existing rows that one transaction changes on average. */
    readonly rows: number;
  }[];
  readonly perSecond: number;
  /** From its first lock to its end. */
  readonly holdMs: number;
  /** Pairs of relations of which it was not seen which one comes first. */
  readonly unordered: readonly (readonly [number, number])[];
}

/** Folds what was seen of the target's transactions into kinds of transactions. */
export function foldShapes(seen: readonly SeenTransaction[], counted: CountedTraffic): Shape[] {
  const kinds = kindsOf(seen, counted.windowMs / Math.max(counted.readings, 1));
  const order = lockOrderOf(seen);
  const inAll = (counted.transactions * 1000) / counted.windowMs;
  const unseen = unseenAmong(counted.called, kinds, inAll);
  const perSecond = Math.max(inAll - sumOf(unseen), 0);
  const rated = completeBeginnings(rate(kinds, counted, perSecond), counted.called, order);
  const scaled = [...scaleToCounters(rated, counted.called, perSecond), ...unseen];
  const all = [...scaled, ...unseenBesideLong(counted.called, scaled, inAll)];
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
      : sortByLockOrder([...locks.keys()], order);
    const steps = sorted.map((relation) => {
      const mode = locks.get(relation) ?? 'ACCESS SHARE';
      return { relation, mode, rows: rowsOf(relation, mode) };
    });
    return { steps, perSecond, holdMs, unordered };
  });
}

interface RatedKind extends Kind {
  readonly perSecond: number;
  readonly holdMs: number;
}

/** A kind that is met in a certain share of the readings comes as often as its duration says. @param perSecond transactions in all. */
function rate(kinds: readonly Kind[], counted: CountedTraffic, perSecond: number): RatedKind[] {
  const concurrency = kinds.reduce((sum, { count }) => sum + count, 0) / Math.max(counted.readings, 1);
  const meanMs = perSecond > 0 ? (concurrency * 1000) / perSecond : 0;
  const rateOf = (count: number, holdMs: number) => (count / counted.readings / holdMs) * 1000;
  const whole = kinds.flatMap(({ count, wholeMs }) => (wholeMs === null ? [] : rateOf(count, wholeMs)));
  const others = kinds.flatMap(({ count, wholeMs, ageMs }) =>
    wholeMs === null ? [{ count, durationMs: ageMs ?? meanMs }] : [],
  );
  const left = Math.max(perSecond - whole.reduce((sum, each) => sum + each, 0), 0);
  const stretch = stretchOf(others, counted.readings, left);
  return kinds.map((kind) => {
    const holdMs = Math.max(kind.wholeMs ?? (kind.ageMs ?? meanMs) * stretch, SHORTEST_MS);
    return { ...kind, holdMs, perSecond: rateOf(kind.count, holdMs) };
  });
}

/**
 * A transaction that was met before it had all its locks looks like one of another kind. If the counters of a table know more statements than
 * the kinds that lock it explain, the rest is taken from the kinds that can be their beginnings.
 */
function completeBeginnings(
  kinds: readonly RatedKind[],
  called: readonly CalledStatement[],
  order: LockOrder,
): RatedKind[] {
  const rated = kinds.map((kind) => ({ ...kind }));
  const longestFirst = rated.toSorted((one, other) => other.locks.size - one.locks.size);
  for (const whole of longestFirst)
    for (const beginning of longestFirst) {
      const added = locksAfter(beginning, whole, order);
      if (added.length === 0) continue;
      const unexplained = Math.min(
        ...added.map((relation) => usesOf(relation, called) - usesOf(relation, rated)),
      );
      const most = beginning.perSecond * shareOfBeginnings(beginning, whole);
      const moved = Math.min(Math.max(unexplained, 0), most);
      if (moved === 0) continue;
      const perSecond = whole.perSecond + moved;
      whole.holdMs = (whole.perSecond * whole.holdMs + moved * beginning.holdMs) / perSecond;
      whole.perSecond = perSecond;
      beginning.perSecond -= moved;
    }
  return rated.filter(({ perSecond }) => perSecond > 0);
}

/** The relations that a transaction locks after those of its beginning; none if it cannot begin so. */
function locksAfter({ locks: begun }: RatedKind, { locks }: RatedKind, order: LockOrder): number[] {
  const isWithin = [...begun].every(([relation, mode]) => {
    const later = locks.get(relation);
    return later !== undefined && isAtLeast(later, mode);
  });
  const added = isWithin ? [...locks.keys()].filter((relation) => !begun.has(relation)) : [];
  const isFirst = [...begun.keys()].every((first) =>
    added.every((second) => order(first, second) > order(second, first)),
  );
  return isFirst ? added : [];
}

/** Sightings of a kind from which on its ages say something. */
const SOME = 5;

/**
 * Returns the fraction of samples of `beginning` that are probably unfinished runs of `whole`. A transaction is sampled, on average,
 * halfway through, and in proportion to its duration.
 */
function shareOfBeginnings(beginning: RatedKind, whole: RatedKind): number {
  if (beginning.medianMs === null || whole.medianMs === null || whole.count < SOME) return 1;
  const restMs = whole.medianMs - 2 * beginning.medianMs;
  return restMs <= 0 ? 1 : Math.min((whole.count * beginning.medianMs) / restMs / beginning.count, 1);
}

/** Statements or transactions a second that lock a relation. */
function usesOf(relation: number, some: readonly (CalledStatement | RatedKind)[]): number {
  return some.reduce((sum, { locks, perSecond }) => sum + (locks.has(relation) ? perSecond : 0), 0);
}

/**
 * Ages of transactions that take less time than their sighting are too high, and a single sighting of a short one counts for too many. All
 * together come no more often than the server counted transactions, and so often if its counters of their tables know as much.
 */
function scaleToCounters(
  kinds: readonly RatedKind[],
  called: readonly CalledStatement[],
  perSecond: number,
): RatedKind[] {
  const short = kinds.filter(({ wholeMs }) => wholeMs === null);
  if (short.length === 0 || perSecond === 0) return [...kinds];
  const long = kinds.filter(({ wholeMs }) => wholeMs !== null);
  const known = [...new Set(short.flatMap(({ locks }) => [...locks.keys()]))].flatMap((relation) => {
    const uses = usesOf(relation, called);
    const left = Math.max(uses - usesOf(relation, long), 0);
    return uses > 0 ? left / usesOf(relation, short) : [];
  });
  const more = Math.min(1 + (perSecond - sumOf(kinds)) / sumOf(short), ...(known.length > 0 ? known : [1]));
  const factor = Math.min(perSecond / sumOf(kinds), 1) * Math.max(more, 1);
  return kinds.map((kind) =>
    kind.wholeMs === null
      ? { ...kind, perSecond: kind.perSecond * factor, holdMs: Math.max(kind.holdMs / factor, SHORTEST_MS) }
      : kind,
  );
}

/** Shortest time between two readings in which a lock is certain to be seen. */
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
  return atMost(
    perSecond,
    called.filter((statement) => !kinds.some((kind) => holdsAll(kind, statement))),
  );
}

/**
 * Returns the statements beyond those of the long transactions that hold their locks: a kind of which only the long transactions were seen
 * has others that fall between the readings. They are no more than the transactions that the kinds leave unexplained.
 * @param perSecond transactions in all.
 */
function unseenBesideLong(
  called: readonly CalledStatement[],
  kinds: readonly (Pick<RatedKind, 'locks' | 'perSecond'> & Partial<RatedKind>)[],
  perSecond: number,
): (CalledStatement & { holdMs: number })[] {
  const more = called.flatMap((statement) => {
    const holding = kinds.filter((kind) => holdsAll(kind, statement));
    const isLong = holding.length > 0 && holding.every(({ wholeMs = null }) => wholeMs !== null);
    const left = statement.perSecond - sumOf(holding);
    return isLong && left > 0 ? [{ locks: statement.locks, perSecond: left }] : [];
  });
  return atMost(Math.max(perSecond - sumOf(kinds), 0), more);
}

/** Tells if a transaction of the kind holds the statement's locks, or stronger ones. */
function holdsAll(kind: Pick<Kind, 'locks'>, { locks }: CalledStatement): boolean {
  return [...locks].every(([relation, mode]) => {
    const held = kind.locks.get(relation);
    return held !== undefined && isAtLeast(held, mode);
  });
}

/** Plays each statement as a transaction of its own, and all together no more often than this. */
function atMost(perSecond: number, statements: readonly CalledStatement[]) {
  const together = sumOf(statements);
  if (together === 0 || perSecond === 0) return [];
  const share = Math.min(perSecond / together, 1);
  return statements.map((each) => ({
    locks: each.locks,
    perSecond: each.perSecond * share,
    holdMs: SHORTEST_MS,
  }));
}

function sumOf(some: readonly { readonly perSecond: number }[]): number {
  return some.reduce((sum, each) => sum + each.perSecond, 0);
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
  return isAtLeast(mode, 'ROW EXCLUSIVE');
}
