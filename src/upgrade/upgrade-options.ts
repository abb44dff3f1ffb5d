import type { UpgradeMode } from '../model/upgrade-mode.ts';
import { REHEARSAL_DEFAULTS, type RehearsalSettings } from '../rehearsal/run-options.ts';

/** Settings that an upgrade shares with a rehearsal. */
type Shared = Pick<
  RehearsalSettings,
  | ('url' | 'urlEnv' | 'source' | 'checkpoint' | 'cloneDir' | 'cloneTtlMs' | 'maxCopyBytes')
  | ('allowExternalAccess' | 'queries' | 'check' | 'timeoutMs' | 'allowClusterStatements')
  | ('sandbox' | 'sandboxAllow')
>;

/** Settings of the rehearsal of a major upgrade. */
export interface UpgradeSettings extends Shared {
  /** The major version to upgrade to. */
  readonly to?: number;
  /** The folder of the new version's programs. */
  readonly newBin?: string;
  /** The folder of the old version's programs. */
  readonly oldBin?: string;
  readonly modes?: readonly UpgradeMode[];
  /** Processes that pg_upgrade and vacuumdb use at a time. */
  readonly jobs?: number;
  /** The longest time for which users may be kept from working. */
  readonly maxDowntimeMs?: number;
}

const { url, urlEnv, source, checkpoint, cloneDir, cloneTtlMs, maxCopyBytes } = REHEARSAL_DEFAULTS;
const { allowExternalAccess, queries, check, timeoutMs, allowClusterStatements } = REHEARSAL_DEFAULTS;
const { sandbox, sandboxAllow } = REHEARSAL_DEFAULTS;

/** The one place of these defaults; null: nothing is set. */
export const UPGRADE_DEFAULTS = {
  url,
  urlEnv,
  source,
  checkpoint,
  cloneDir,
  cloneTtlMs,
  maxCopyBytes,
  allowExternalAccess,
  queries,
  check,
  timeoutMs,
  allowClusterStatements,
  sandbox,
  sandboxAllow,
  to: null,
  newBin: null,
  oldBin: null,
  modes: ['copy', 'clone', 'link', 'swap'],
  jobs: 1,
  maxDowntimeMs: null,
} as const satisfies { readonly [K in keyof UpgradeSettings]-?: UpgradeSettings[K] | null };
