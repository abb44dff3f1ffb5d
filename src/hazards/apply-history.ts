import type { ForecastSection } from '../model/report.ts';

/** An earlier apply to the same target: the times of its statements in the rehearsal and on the target. */
export interface EarlierApply {
  readonly times: readonly (readonly [rehearsedMs: number, appliedMs: number])[];
}

/** Shorter times are those of the network, not of the statement. */
const NOTICEABLE_MS = 5;

/** Keeps the times that are long enough to compare. */
export function telling(times: EarlierApply['times']): EarlierApply['times'] {
  return times.filter((pair) => Math.min(...pair) > 0 && Math.max(...pair) >= NOTICEABLE_MS);
}

/** Compares times on the target with rehearsed ones in earlier applies; null if there are none to compare. */
export function applyHistoryOf(past: readonly EarlierApply[]): ForecastSection['earlierApplies'] {
  const applies = past.map(({ times }) => telling(times)).filter(({ length }) => length > 0);
  if (applies.length === 0) return null;
  const ratios = applies
    .flat()
    .map(([rehearsedMs, appliedMs]) => appliedMs / rehearsedMs)
    .sort((one, other) => one - other);
  const at = (share: number) => ratios[Math.round((ratios.length - 1) * share)] ?? 1;
  return {
    applies: applies.length,
    statements: ratios.length,
    low: at(0.1),
    median: at(0.5),
    high: at(0.9),
  };
}
