import { SafemigrateError } from '../errors.ts';
import type { UpgradeMode } from '../model/upgrade-mode.ts';
import { fillDefaults, makeRehearsalPlan, type RehearsalPlan } from '../rehearsal/plan.ts';
import type { RehearseOptions } from '../rehearsal/run-options.ts';
import { UPGRADE_DEFAULTS, type UpgradeSettings } from './upgrade-options.ts';

/**
 * Everything that the rehearsal of an upgrade goes by, with every default filled in. The command is the one that belongs to the
 * upgrade; it has no words if there is none.
 */
export interface UpgradePlan extends RehearsalPlan {
  /** Major version. */
  readonly to: number;
  readonly newBin: string | null;
  readonly oldBin: string | null;
  readonly modes: readonly UpgradeMode[];
  readonly jobs: number;
  readonly maxDowntimeMs: number | null;
}

/** Settings, the command, and how the run talks to whoever started it. */
export type UpgradeOptions = UpgradeSettings &
  Pick<RehearseOptions, 'command' | 'commandStdout' | 'interrupts' | 'emit' | 'audit' | 'signal'>;

/** @throws SafemigrateError `CONFIGURATION` if no version is named. */
export function makeUpgradePlan(options: UpgradeOptions): UpgradePlan {
  const settings = fillDefaults<UpgradeSettings, typeof UPGRADE_DEFAULTS>(UPGRADE_DEFAULTS, options);
  const { to, newBin, oldBin, modes, jobs, maxDowntimeMs } = settings;
  if (to === null)
    throw new SafemigrateError('CONFIGURATION', 'The version to upgrade to is not named.', {
      hint: 'Name it: safemigrate upgrade --to 18. Nothing was touched.',
    });
  return {
    ...makeRehearsalPlan(options),
    to,
    newBin,
    oldBin,
    modes,
    jobs: Math.max(1, jobs),
    maxDowntimeMs,
  };
}
