import { DEFAULT_URL_VARIABLE } from '../database/url-variable.ts';
import type { UpgradeMode } from '../model/upgrade-mode.ts';
import { REHEARSAL_DEFAULTS } from '../rehearsal/run-options.ts';

/** What a user can set for the rehearsal of a major upgrade. */
export interface UpgradeSettings {
  readonly url?: string;
  readonly urlEnv?: string;
  /** A standby of the target to copy the cluster from. */
  readonly source?: string;
  /** The major version to upgrade to. */
  readonly to?: number;
  /** The folder of the new version's programs. */
  readonly newBin?: string;
  /** The folder of the old version's programs. */
  readonly oldBin?: string;
  readonly modes?: readonly UpgradeMode[];
  /** Processes that pg_upgrade and vacuumdb use at a time. */
  readonly jobs?: number;
  readonly checkpoint?: 'fast' | 'spread';
  readonly cloneDir?: string;
  readonly cloneTtlMs?: number;
  readonly maxCopyBytes?: number;
  readonly allowExternalAccess?: boolean;
  /** The longest time for which users may be kept from working. */
  readonly maxDowntimeMs?: number;
}

const { checkpoint, cloneDir, cloneTtlMs, maxCopyBytes, allowExternalAccess } = REHEARSAL_DEFAULTS;

/** The one place of these defaults; null: nothing is set. */
export const UPGRADE_DEFAULTS = {
  url: null,
  urlEnv: DEFAULT_URL_VARIABLE,
  source: null,
  to: null,
  newBin: null,
  oldBin: null,
  modes: ['copy', 'clone', 'link', 'swap'],
  jobs: 1,
  ...{ checkpoint, cloneDir, cloneTtlMs, maxCopyBytes, allowExternalAccess },
  maxDowntimeMs: null,
} as const satisfies { readonly [K in keyof UpgradeSettings]-?: UpgradeSettings[K] | null };
