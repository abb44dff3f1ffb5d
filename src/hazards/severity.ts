import type { Hazard } from '../model/report.ts';
import { blocks } from '../postgres/lock-modes.ts';
import type { HazardContext, StatementLock } from './hazard-context.ts';
import { BUSY_PER_SECOND, ERROR, MANY_ROWS, WARNING } from './thresholds.ts';

export type Severity = Hazard['severity'];

const ORDER: readonly Severity[] = ['notice', 'warning', 'error'];

export function worst(severities: Iterable<Severity>): Severity {
  return [...severities].reduce((a, b) => (ORDER.indexOf(a) > ORDER.indexOf(b) ? a : b), 'notice');
}

/**
 * How much it hurts that others are kept out of a relation: by the time, by the size where the work grows with it, and
 * by the statements that would wait. Traffic only adds to it: that nobody came while the target was sampled does not
 * mean that nobody comes, and it may be a copy that no application uses.
 */
export function weighLock(ground: HazardContext, lock: StatementLock, growsWithSize = true): Severity {
  const waiting = waitingFor(ground, lock);
  const sizeBytes = growsWithSize ? (ground.relation(lock.relation)?.sizeBytes ?? 0) : 0;
  const heldMs = lock.heldMs ?? 0;
  return degree({ heldMs, sizeBytes, waiting: waiting ?? 0 });
}

/** Statements that would wait at the end of the lock; null where the target's traffic is not known. */
export function waitingFor(ground: HazardContext, { relation, mode, heldMs }: StatementLock): number | null {
  const traffic = ground.traffic(relation);
  if (!traffic || heldMs === null) return null;
  const kept = blocks(mode);
  const rate =
    (kept.includes('reads') ? traffic.readsPerSecond : 0) +
    (kept.includes('writes') ? traffic.writesPerSecond : 0);
  return (rate * heldMs) / 1000;
}

/** What takes no time, and breaks those who still use the old name, type or right. */
export function weighBreakage(ground: HazardContext, relation: string): Severity {
  if (isBusy(ground, relation)) return 'error';
  const { rows, sizeBytes } = ground.relation(relation) ?? {};
  return (rows ?? 0) >= MANY_ROWS || (sizeBytes ?? 0) >= WARNING.sizeBytes ? 'warning' : 'notice';
}

function isBusy(ground: HazardContext, relation: string): boolean {
  const traffic = ground.traffic(relation);
  return traffic !== null && traffic.readsPerSecond + traffic.writesPerSecond >= BUSY_PER_SECOND;
}

/** What cannot be brought back. `rows` of them held something; null where that is not known. */
export function weighLoss(ground: HazardContext, relation: string, rows: number | null): Severity {
  if (rows === 0) return 'notice';
  return isBusy(ground, relation) || rows === null || rows >= MANY_ROWS ? 'error' : 'warning';
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
