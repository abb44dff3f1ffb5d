import type { ProductionTime, StatementSection } from '../../model/report.ts';
import { normalizeSql } from '../../postgres/sql/normalize.ts';
import type { HazardContext } from '../hazard-context.ts';
import { extrapolate } from './extrapolate.ts';
import type { Sizes } from './sizes.ts';
import { workOf } from './work.ts';

const LIMITED = /\bLIMIT\s+[\d$?]/i;

/** A few rows that a statement wrote are those that it named, however many there are. */
const NAMED_ROWS = 10;

/** Normalised texts that occur more than once, such as batches. Production would need more of them. */
export function repeatedShapes(statements: readonly StatementSection[]): ReadonlySet<string> {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  for (const { sql } of statements) {
    const shape = normalizeSql(sql);
    if (seen.has(shape)) repeated.add(shape);
    seen.add(shape);
  }
  return repeated;
}

/**
 * Returns the time and rows of a statement at production's size, and the factor by which its work is larger; 1 if it is not.
 * @param batches shapes that are repeated
 */
export function growthOf(
  context: HazardContext,
  statement: StatementSection,
  sizes: Sizes,
  batches: ReadonlySet<string>,
) {
  const same = { statement, time: null, factor: 1, rows: statement.rows };
  // Each of many transactions would do no more there; there would be more of them.
  if (statement.error || (statement.repeated && statement.repeated.transactions > 1)) return same;
  const work = workOf(context, statement);
  const growth = work && sizes.growth(work.relations);
  if (!work || !growth) return same;
  // The first is the table whose rows are looked up in the others.
  if (work.kind === 'lookup' && sizes.isEmptyThere(work.relations[0] ?? '')) return same;
  const isBatch = LIMITED.test(statement.sql) || batches.has(normalizeSql(statement.sql));
  if (work.kind === 'rows' && isBatch) return same;
  const rowFactor = growth.hereRows > 0 ? growth.thereRows / growth.hereRows : null;
  const sizeFactor = growth.hereBytes > 0 ? growth.thereBytes / growth.hereBytes : null;
  const rows = rowsAt(
    statement.rows,
    work.kind === 'rows' ? (rowFactor ?? sizeFactor) : null,
    growth.hereRows,
  );
  const workRows = rows === statement.rows ? null : rows;
  return {
    statement,
    rows,
    factor: sizeFactor ?? 1,
    time: extrapolate(statement.durationMs, work.kind, {
      ...growth,
      workRows,
      speedup: work.sorts ? sizes.speedup(growth) : 1,
    }),
  };
}

/** Rows that were written by a condition grow with the table; a few of many are those that the statement named. */
function rowsAt(rows: number | null, factor: number | null, ofRows: number): number | null {
  if (rows === null || factor === null || rows === 0) return rows;
  return rows > NAMED_ROWS || rows * 2 > ofRows ? Math.round(rows * factor) : rows;
}

export type Grown = ReturnType<typeof growthOf>;

/** Puts the times and rows at production's size beside those that were measured. */
export function withTimes({ statement, time, rows }: Grown): StatementSection {
  return {
    ...statement,
    ...(time && { atProductionSize: time }),
    ...(rows === null || rows === statement.rows ? {} : { rowsAtProductionSize: rows }),
  };
}

/** The same for locks: each is held until its transaction ends, for as much longer as the statements take until then. */
export function withLocks(statements: readonly StatementSection[]): StatementSection[] {
  const following = new Map<number, ProductionTime>();
  return statements
    .toReversed()
    .map((statement) => {
      const { transaction, durationMs, locks, atProductionSize: own } = statement;
      const later = following.get(transaction) ?? NOTHING_MORE;
      if (own) following.set(transaction, sum(later, own, -durationMs));
      if (!own && later === NOTHING_MORE) return statement;
      return {
        ...statement,
        locks:
          locks?.map((lock) => {
            if (lock.heldMs === null) return lock;
            // A lock that is taken at the end of a statement, as concurrent forms do, is not held while it works.
            const share = durationMs > 0 ? Math.min(1, lock.heldMs / durationMs) : 1;
            const more = own ? sum(later, scaled(own, share), -durationMs * share) : later;
            const held = lock.heldMs;
            return { ...lock, atProductionSize: sum(more, NOTHING_MORE, held) };
          }) ?? null,
      };
    })
    .toReversed();
}

const NOTHING_MORE: ProductionTime = { ms: 0, lowMs: 0, highMs: 0, basis: 'measured rate' };

function sum(one: ProductionTime, other: ProductionTime, moreMs: number): ProductionTime {
  const isTypical = one.basis === 'typical rate' || other.basis === 'typical rate';
  return {
    ms: one.ms + other.ms + moreMs,
    lowMs: one.lowMs + other.lowMs + moreMs,
    highMs: one.highMs + other.highMs + moreMs,
    basis: isTypical ? 'typical rate' : 'measured rate',
  };
}

function scaled({ ms, lowMs, highMs, basis }: ProductionTime, share: number): ProductionTime {
  return { ms: ms * share, lowMs: lowMs * share, highMs: highMs * share, basis };
}

/** Puts the best guess in the place of what was measured, to weigh hazards by; the interval beside it is what is shown. */
export function asJudged(statement: StatementSection): StatementSection {
  return {
    ...statement,
    durationMs: statement.atProductionSize?.ms ?? statement.durationMs,
    rows: statement.rowsAtProductionSize ?? statement.rows,
    locks:
      statement.locks?.map((lock) => ({ ...lock, heldMs: lock.atProductionSize?.ms ?? lock.heldMs })) ?? null,
  };
}
