import { formatDuration } from '../format.ts';
import type { ModeSection, UpgradeReport } from '../model/upgrade-model.ts';

/** A way back is worth so many times the shortest downtime, and at any rate this long. */
const WORTH_FACTOR = 2;
const WORTH_MS = 30_000;

/**
 * Recommends a mode: the fastest with a way back, unless that costs far more downtime than the fastest of all, or more than
 * users may be kept waiting.
 */
export function recommend(
  modes: readonly ModeSection[],
  maxDowntimeMs: number | null,
): UpgradeReport['recommendation'] {
  const passed = modes.flatMap((each) =>
    each.downtimeMs === null ? [] : [{ ...each, downtimeMs: each.downtimeMs }],
  );
  const sorted = passed.sort((one, other) => one.downtimeMs - other.downtimeMs);
  const [fastest] = sorted;
  if (!fastest) return null;
  const limit = Math.min(
    maxDowntimeMs ?? Number.POSITIVE_INFINITY,
    fastest.downtimeMs * WORTH_FACTOR + WORTH_MS,
  );
  const safe = sorted.find(({ wayBack }) => wayBack);
  const extra = (ms: number) => formatDuration(ms - fastest.downtimeMs);
  if (safe && safe.downtimeMs <= limit) {
    const more =
      safe === fastest ? 'and no other is faster' : `for ${extra(safe.downtimeMs)} more than ${fastest.mode}`;
    return {
      mode: safe.mode,
      reason: `it leaves the old cluster as it was, a way back until users write to the new one, ${more}`,
    };
  }
  const why = safe
    ? `${safe.mode}, which has a way back, would keep users waiting ${extra(safe.downtimeMs)} longer`
    : 'no mode with a way back passed';
  return {
    mode: fastest.mode,
    reason: `it is the fastest; ${why}. Take a backup first: the old cluster is lost`,
  };
}
