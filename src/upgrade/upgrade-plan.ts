import type { CloneOptions } from '../clone/method.ts';
import { SafemigrateError } from '../errors.ts';
import type { UpgradeMode } from '../model/upgrade-mode.ts';
import { fillDefaults, makeRunPlan, type RunPlan, type TargetPlan } from '../rehearsal/plan.ts';
import { REHEARSAL_DEFAULTS } from '../rehearsal/run-options.ts';
import { UPGRADE_DEFAULTS, type UpgradeSettings } from './upgrade-options.ts';

/** Everything that the rehearsal of an upgrade goes by, with every default filled in. */
export interface UpgradePlan extends RunPlan {
  readonly target: Pick<TargetPlan, 'url' | 'urlEnv'>;
  readonly source: string | null;
  /** Major version. */
  readonly to: number;
  readonly newBin: string | null;
  readonly oldBin: string | null;
  readonly modes: readonly UpgradeMode[];
  readonly jobs: number;
  readonly maxDowntimeMs: number | null;
  /** All but the names of the databases, which the target knows. */
  readonly clone: Omit<CloneOptions, 'databases'>;
}

/** @throws SafemigrateError `CONFIGURATION` if no version is named. */
export function makeUpgradePlan(options: UpgradeSettings & Partial<RunPlan>): UpgradePlan {
  const settings = fillDefaults<UpgradeSettings, typeof UPGRADE_DEFAULTS>(UPGRADE_DEFAULTS, options);
  const { url, urlEnv, source, to, newBin, oldBin, modes, jobs, maxDowntimeMs } = settings;
  const { checkpoint, cloneDir, cloneTtlMs, maxCopyBytes, allowExternalAccess } = settings;
  const { waitMs, maxStallMs } = REHEARSAL_DEFAULTS;
  if (to === null)
    throw new SafemigrateError('CONFIGURATION', 'The version to upgrade to is not named.', {
      hint: 'Name it: safemigrate upgrade --to 18. Nothing was touched.',
    });
  return {
    ...makeRunPlan(options),
    ...{ target: { url, urlEnv }, source, to, newBin, oldBin, modes, jobs: Math.max(1, jobs), maxDowntimeMs },
    clone: {
      ...{ disconnect: 'never', waitMs, maxStallMs, maxCopyBytes, ttlMs: cloneTtlMs, checkpoint },
      ...{ folder: cloneDir, schemaOnly: false, excludeTableData: [], allowExternalAccess },
      ...{ keep: false, external: null, at: null },
    },
  };
}
