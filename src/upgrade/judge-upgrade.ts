import { formatDuration } from '../format.ts';
import type { ModeSection, UpgradeReport } from '../model/upgrade-model.ts';
import type { UpgradePlan } from './upgrade-plan.ts';

/**
 * Recommends a mode and gives the verdict: the upgrade passes if it can be done, in the time that there is. Each error among the
 * obstacles has one reason, before all others.
 */
export function judgeUpgrade(
  {
    check,
    obstacles,
    modes,
  }: Pick<UpgradeReport, 'obstacles' | 'modes'> & { readonly check: { readonly passed: boolean } | null },
  { maxDowntimeMs }: Pick<UpgradePlan, 'maxDowntimeMs'>,
): Pick<UpgradeReport, 'recommendation' | 'verdict'> {
  const recommendation = recommend(modes, maxDowntimeMs);
  const reasons = obstacles
    .filter(({ severity }) => severity === 'error')
    .map(({ code, message }) => `${code}: ${message}`);
  reasons.push(...failures(modes));
  if (check?.passed && recommendation === null && reasons.length === 0)
    reasons.push('no mode could be tried');
  const chosen = modes.find(({ mode }) => mode === recommendation?.mode || mode === 'service');
  const downtimeMs = chosen?.downtimeMs ?? null;
  if (maxDowntimeMs !== null && downtimeMs !== null && downtimeMs > maxDowntimeMs) {
    const how = chosen?.mode === 'service' ? 'at most, ' : `with ${chosen?.mode}, `;
    reasons.push(
      `users would wait ${formatDuration(downtimeMs)} ${how}longer than ${formatDuration(maxDowntimeMs)} (--limit downtime)`,
    );
  }
  return { recommendation, verdict: { pass: reasons.length === 0, reasons } };
}

/** One reason for the modes that failed alike. */
function failures(modes: readonly ModeSection[]): string[] {
  const alike = new Map<string, string[]>();
  for (const { mode, outcome, phases, reason } of modes) {
    if (outcome !== 'failed') continue;
    const itself = phases.length === 0 && mode !== 'service';
    const why = itself ? 'pg_upgrade failed' : (reason ?? 'it failed');
    alike.set(why, [...(alike.get(why) ?? []), `--${mode}`]);
  }
  return [...alike].map(([why, names]) => (names[0] === '--service' ? why : `${why} (${names.join(', ')})`));
}

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
  const passed = modes.flatMap(({ mode, downtimeMs, wayBack }) =>
    downtimeMs === null || mode === 'service' ? [] : [{ mode, downtimeMs, wayBack }],
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
