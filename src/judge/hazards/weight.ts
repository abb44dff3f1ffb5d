import type { Hazard } from '../../report/model.ts';
import { blocks, type LockMode } from '../lock-modes.ts';
import type { Ground } from './ground.ts';
import { BUSY_PER_SECOND, ERROR, MANY_ROWS, WARNING } from './thresholds.ts';

export type Severity = Hazard['severity'];

const ORDER: readonly Severity[] = ['notice', 'warning', 'error'];

export function worst(severities: Iterable<Severity>): Severity {
  return [...severities].reduce((a, b) => (ORDER.indexOf(a) > ORDER.indexOf(b) ? a : b), 'notice');
}

export interface HeldLock {
  readonly relation: string;
  readonly mode: LockMode;
  readonly heldMs: number | null;
}

/**
 * How much it hurts that others are kept out of a relation: by the time, by the size where the work grows with it, and
 * by the statements that would wait. Where the target was sampled and nobody comes, it hurts one degree less.
 */
export function weighLock(ground: Ground, lock: HeldLock, growsWithSize = true): Severity {
  const waiting = waitingFor(ground, lock);
  const sizeBytes = growsWithSize ? (ground.relation(lock.relation)?.sizeBytes ?? 0) : 0;
  const heldMs = lock.heldMs ?? 0;
  const measured = degree({ heldMs, sizeBytes });
  if (waiting === null) return measured;
  return worst([degree({ waiting }), waiting < 1 ? milder(measured) : measured]);
}

/** Statements that would wait at the end of the lock; null where the target's traffic is not known. */
export function waitingFor(ground: Ground, { relation, mode, heldMs }: HeldLock): number | null {
  const traffic = ground.traffic(relation);
  if (!traffic || heldMs === null) return null;
  const kept = blocks(mode);
  const rate =
    (kept.includes('reads') ? traffic.readsPerSecond : 0) +
    (kept.includes('writes') ? traffic.writesPerSecond : 0);
  return (rate * heldMs) / 1000;
}

/** What takes no time, and breaks those who still use the old name, type or right. */
export function weighBreakage(ground: Ground, relation: string): Severity {
  const traffic = ground.traffic(relation);
  const facts = ground.relation(relation);
  if (traffic) {
    const rate = traffic.readsPerSecond + traffic.writesPerSecond;
    return rate >= BUSY_PER_SECOND ? 'error' : rate > 0 ? 'warning' : 'notice';
  }
  return (facts?.rows ?? 0) >= MANY_ROWS || (facts?.sizeBytes ?? 0) >= WARNING.sizeBytes
    ? 'warning'
    : 'notice';
}

/** What cannot be brought back. `rows` of them held something; null where that is not known. */
export function weighLoss(ground: Ground, relation: string, rows: number | null): Severity {
  if (rows === 0) return 'notice';
  const traffic = ground.traffic(relation);
  const busy = traffic !== null && traffic.readsPerSecond + traffic.writesPerSecond >= BUSY_PER_SECOND;
  return busy || rows === null || rows >= MANY_ROWS ? 'error' : 'warning';
}

/** Rows that one transaction keeps locked, and leaves dead behind. */
export function weighRows(rows: number, openMs: number | null): Severity {
  return worst([degree({ rows }), milder(degree({ heldMs: openMs ?? 0 }))]);
}

export function milder(severity: Severity): Severity {
  return ORDER[Math.max(0, ORDER.indexOf(severity) - 1)] ?? 'notice';
}

type Figures = Partial<Record<keyof typeof WARNING, number>>;

function degree(figures: Figures): Severity {
  const reaches = (limits: typeof WARNING | typeof ERROR) =>
    (Object.entries(figures) as [keyof typeof WARNING, number][]).some(
      ([unit, figure]) => figure >= limits[unit],
    );
  return reaches(ERROR) ? 'error' : reaches(WARNING) ? 'warning' : 'notice';
}
