import type { Hazard } from '../model/report.ts';
import { blocks } from '../postgres/lock-modes.ts';
import type { HazardContext } from './hazard-context.ts';
import type { StatementLock } from './held-locks.ts';
import { BUSY_PER_SECOND, ERROR, MANY_ROWS, WARNING } from './thresholds.ts';
import { waitingStatements } from './waiting.ts';

export type Severity = Hazard['severity'];

const ORDER: readonly Severity[] = ['notice', 'warning', 'error'];

export function worst(severities: Iterable<Severity>): Severity {
  return [...severities].reduce((a, b) => (ORDER.indexOf(a) > ORDER.indexOf(b) ? a : b), 'notice');
}

/**
 * Rates a lock that blocks others by its time, by the size of the relation if the work grows with it, and by the statements
 * that would wait. Traffic can only raise the severity: a quiet sample does not mean that no session will come, and the target may be
 * a copy that no application uses.
 */
export function weighLock(context: HazardContext, lock: StatementLock, growsWithSize = true): Severity {
  const waiting = waitingFor(context, lock);
  const sizeBytes = growsWithSize ? context.sizeBytesOf(lock.relation) : 0;
  const heldMs = lock.heldMs ?? 0;
  return degree({ heldMs, sizeBytes, waiting: waiting ?? 0 });
}

/** The times of two runs of the same statement differ by this factor. */
const RUNS_DIFFER = 1.3;

/** The severity that the lock may have in another run, if its time is near a limit; else undefined. */
export function severityElsewhen(
  context: HazardContext,
  lock: StatementLock,
  growsWithSize = true,
): Severity | undefined {
  const { heldMs } = lock;
  if (heldMs === null) return undefined;
  const weigh = (ms: number) => weighLock(context, { ...lock, heldMs: ms }, growsWithSize);
  return [heldMs * RUNS_DIFFER, heldMs / RUNS_DIFFER].map(weigh).find((other) => other !== weigh(heldMs));
}

/** Statements that would be waiting when the lock is released; null if the target's traffic is unknown. */
export function waitingFor(context: HazardContext, { relation, mode, heldMs }: StatementLock): number | null {
  const { transactionsPerSecond = null } = context.facts;
  return waitingStatements(
    { heldMs, blocks: blocks(mode) },
    context.traffic(relation),
    transactionsPerSecond,
  );
}

/**
 * Rates an instant change that breaks code which still uses the old name, type or privilege. A small table that an application may
 * write breaks it as a large one does.
 */
export function weighBreakage(context: HazardContext, relation: string): Severity {
  const { rows, written } = context.relation(relation) ?? {};
  const bySize = weighBySize(context, relation);
  return written && (rows ?? 0) > 0 ? worst([bySize, 'warning']) : bySize;
}

/** Rates a change that most code does not notice. */
export function weighBySize(context: HazardContext, relation: string): Severity {
  if (isBusy(context, relation)) return 'error';
  const { rows, sizeBytes } = context.relation(relation) ?? {};
  return (rows ?? 0) >= MANY_ROWS || (sizeBytes ?? 0) >= WARNING.sizeBytes ? 'warning' : 'notice';
}

function isBusy(context: HazardContext, relation: string): boolean {
  const traffic = context.traffic(relation);
  return traffic !== null && traffic.readsPerSecond + traffic.writesPerSecond >= BUSY_PER_SECOND;
}

/** Rates lost data. @param rows rows that had a value; null if unknown. A dump without rows causes no error. */
export function weighLoss(context: HazardContext, relation: string, rows: number | null): Severity {
  if (context.relation(relation)?.unfilled) return 'warning';
  if (rows === 0) return 'notice';
  return isBusy(context, relation) || rows === null || rows >= MANY_ROWS ? 'error' : 'warning';
}

/** Rates rows that one transaction keeps locked and leaves behind as dead versions. */
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
