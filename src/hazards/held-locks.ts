import type { ProductionTime, SchemaSection, StatementSection } from '../model/report.ts';
import { LOCK_MODES, type LockMode } from '../postgres/lock-modes.ts';

/** The strongest lock of a transaction on one relation. */
export interface StatementLock {
  readonly relation: string;
  readonly mode: LockMode;
  readonly heldMs: number | null;
  /** Present if `heldMs` was extrapolated to production's size. */
  readonly atProductionSize?: ProductionTime | undefined;
}

/** A lock, and the index of the statement since which it is held. */
export interface LockSince extends StatementLock {
  readonly index: number;
}

/** A lock that blocks other sessions. */
export interface HeldLock {
  /** The table if the lock is on an index. */
  readonly relation: string;
  readonly mode: string;
  /** null if it could not be measured. */
  readonly heldMs: number | null;
  readonly atProductionSize?: ProductionTime | undefined;
  readonly blocks: readonly string[];
  /** Index of the statement that took it. */
  readonly statement: number;
}

/** Locks on catalogues and TOAST follow from those on a table; relations without a name were created in the transaction. */
export const INTERNAL_RELATION = /^(pg_catalog\.|pg_toast\.|relation \d+)/;

/** The longest lock of each relation and mode, those that block most first, without relations that the command created. */
export function longestLocks(
  statements: readonly StatementSection[],
  schema: Pick<SchemaSection, 'changes'> | null,
): HeldLock[] {
  const made = new Set(
    (schema?.changes ?? []).filter(({ verb }) => verb === 'create').map(({ object }) => object),
  );
  const longest = new Map<string, HeldLock>();
  for (const { index, locks } of statements)
    for (const { relation: locked, indexOf, mode, heldMs, blocks, atProductionSize } of locks ?? []) {
      const relation = indexOf ?? locked;
      if (
        blocks.length === 0 ||
        [locked, relation].some((name) => made.has(name) || INTERNAL_RELATION.test(name))
      )
        continue;
      const key = JSON.stringify([relation, mode]);
      const known = longest.get(key);
      if (!known || (heldMs ?? -1) > (known.heldMs ?? -1))
        longest.set(key, { relation, mode, heldMs, atProductionSize, blocks, statement: index });
    }
  return [...longest.values()].sort(
    (one, other) => other.blocks.length - one.blocks.length || (other.heldMs ?? 0) - (one.heldMs ?? 0),
  );
}

/** Finds the lock that is worst for others; of equal ones a table's, since the lock on its index says the same. */
export function strongestLock({ locks }: StatementSection): ReportedLock | undefined {
  return (locks ?? [])
    .filter(({ relation }) => !INTERNAL_RELATION.test(relation))
    .toSorted(
      (one, other) =>
        other.blocks.length - one.blocks.length ||
        Number(one.indexOf !== undefined) - Number(other.indexOf !== undefined) ||
        (other.heldMs ?? 0) - (one.heldMs ?? 0),
    )[0];
}

type ReportedLock = NonNullable<StatementSection['locks']>[number];

/** The locks of one transaction, each stronger than the one before on the same relation. */
export function locksOf(statements: readonly StatementSection[]): Map<string, LockSince[]> {
  const locks = new Map<string, LockSince[]>();
  for (const { index, locks: taken } of statements)
    for (const { relation, mode, heldMs, atProductionSize } of taken ?? []) {
      const known = modeOf(mode);
      const before = locks.get(relation) ?? [];
      const last = before.at(-1);
      if (!known || (last && strength(known) <= strength(last.mode))) continue;
      locks.set(relation, [...before, { relation, mode: known, heldMs, atProductionSize, index }]);
    }
  return locks;
}

export function modeOf(mode: string): LockMode | undefined {
  return LOCK_MODES.find((known) => known === mode);
}

function strength(mode: LockMode): number {
  return LOCK_MODES.indexOf(mode);
}
