import type { ForecastSection } from '../model/report.ts';

/** An earlier run that applied its command to the same target: what its statements took in the rehearsal and there. */
export interface EarlierApply {
  readonly times: readonly (readonly [rehearsedMs: number, appliedMs: number])[];
}

/** Below that, it is the network's time and not the statement's. */
const NOTICEABLE_MS = 5;

/** Those of an apply's times that tell anything. */
export function telling(times: EarlierApply['times']): EarlierApply['times'] {
  return times.filter((pair) => Math.min(...pair) > 0 && Math.max(...pair) >= NOTICEABLE_MS);
}

/** How times on the target compared with rehearsed ones so far; null where nothing was applied yet that took any. */
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
    ...{ low: at(0.1), median: at(0.5), high: at(0.9) },
  };
}
