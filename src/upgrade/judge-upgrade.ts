import { formatDuration } from '../format.ts';
import type { ModeSection, UpgradeObstacle, UpgradeReport } from '../model/upgrade-model.ts';
import { recommend } from './recommend.ts';
import type { UpgradePlan } from './upgrade-plan.ts';

/** Findings that the verdict follows from. */
export interface UpgradeFindings {
  readonly check: Pick<NonNullable<UpgradeReport['check']>, 'passed'> | null;
  readonly obstacles: readonly UpgradeObstacle[];
  readonly modes: readonly ModeSection[];
}

/**
 * Recommends a mode and gives the verdict: the upgrade passes if it can be done, in the time that there is. Each error among the
 * obstacles has one reason, before all others.
 */
export function judgeUpgrade(
  { check, obstacles, modes }: UpgradeFindings,
  { maxDowntimeMs }: Pick<UpgradePlan, 'maxDowntimeMs'>,
): Pick<UpgradeReport, 'recommendation' | 'verdict'> {
  const recommendation = recommend(modes, maxDowntimeMs);
  const reasons = obstacles
    .filter(({ severity }) => severity === 'error')
    .map(({ code, message }) => `${code}: ${message}`);
  reasons.push(...failures(modes));
  if (check?.passed && recommendation === null && reasons.length === 0)
    reasons.push('no mode could be tried');
  const downtimeMs = modes.find(({ mode }) => mode === recommendation?.mode)?.downtimeMs ?? null;
  if (maxDowntimeMs !== null && downtimeMs !== null && downtimeMs > maxDowntimeMs)
    reasons.push(
      `users would wait ${formatDuration(downtimeMs)} with ${recommendation?.mode}, longer than ${formatDuration(maxDowntimeMs)} (--limit downtime)`,
    );
  return { recommendation, verdict: { pass: reasons.length === 0, reasons } };
}

/** One reason for the modes that failed alike. */
function failures(modes: readonly ModeSection[]): string[] {
  const alike = new Map<string, string[]>();
  for (const { mode, outcome, phases, reason } of modes) {
    if (outcome !== 'failed') continue;
    const why = phases.length === 0 ? 'pg_upgrade failed' : (reason ?? 'it failed');
    alike.set(why, [...(alike.get(why) ?? []), `--${mode}`]);
  }
  return [...alike].map(([why, names]) => `${why} (${names.join(', ')})`);
}
