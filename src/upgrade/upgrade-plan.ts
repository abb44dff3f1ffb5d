import { SafemigrateError } from '../errors.ts';
import { makeRehearsalPlan, type RehearsalPlan } from '../rehearsal/plan.ts';
import { fillIn, type PlanOf } from '../settings.ts';
import { UPGRADE_ONLY, type UpgradeOptions } from './upgrade-settings.ts';

/**
 * Everything that the rehearsal of an upgrade goes by, with every default filled in. The command is the one that belongs to the
 * upgrade; it has no words if there is none.
 */
export interface UpgradePlan extends RehearsalPlan, PlanOf<typeof UPGRADE_ONLY> {
  /** Major version. */
  readonly to: number;
}

/** @throws SafemigrateError `CONFIGURATION` if no version is named. */
export function makeUpgradePlan(options: UpgradeOptions): UpgradePlan {
  const { to, jobs, ...settings } = fillIn(UPGRADE_ONLY, options);
  if (to === null)
    throw new SafemigrateError('CONFIGURATION', 'The version to upgrade to is not named.', {
      hint: 'Name it: safemigrate upgrade --to 19. Nothing was touched.',
    });
  return { ...makeRehearsalPlan(options), ...settings, to, jobs: Math.max(1, jobs) };
}
