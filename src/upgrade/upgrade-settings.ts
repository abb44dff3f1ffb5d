import { UPGRADE_MODES, type UpgradeMode } from '../model/upgrade-mode.ts';
import { REHEARSAL_SETTINGS, type RehearseOptions } from '../rehearsal/rehearsal-settings.ts';
import { flag, grouped, type OptionsOf, pick } from '../settings.ts';
import { COUNT, DURATION, TEXT, type ValueType } from '../value-types.ts';

const MAJOR: ValueType<number> = {
  parse: (text) => {
    if (!/^[1-9]\d$/.test(text.trim()))
      throw new Error(`is "${text}", and must be a major version, such as 18.`);
    return Number(text);
  },
  format: String,
};

/** `copy,link` */
const MODES: ValueType<readonly UpgradeMode[]> = {
  parse: (text) => {
    const words = text.split(',').map((word) => word.trim());
    const modes = UPGRADE_MODES.filter((mode) => words.includes(mode));
    if (modes.length < new Set(words).size)
      throw new Error(`is "${text}", and can be ${UPGRADE_MODES.join(', ')}, separated by commas.`);
    return modes;
  },
  format: (modes) => modes.join(','),
};

const { target, clone, proxy, checks, timeoutMs, sandbox } = REHEARSAL_SETTINGS;

/** Settings of the upgrade itself. */
export const UPGRADE_ONLY = {
  ...grouped(
    { group: 'Target' },
    {
      to: flag('--to <version>', MAJOR, {
        summary: 'the major version to upgrade to',
      }),
      newBin: flag('--new-bin <folder>', TEXT, {
        summary: "the new version's programs; without it, where packages put them",
        notInFile: true,
      }),
      oldBin: flag('--old-bin <folder>', TEXT, {
        summary: "the old version's programs; without it, those of the running server",
        notInFile: true,
      }),
    },
  ),
  ...grouped(
    { group: 'Clone' },
    {
      modes: flag('--modes <modes>', MODES, {
        summary: `modes of pg_upgrade to try: ${UPGRADE_MODES.join(', ')}`,
        default: ['copy', 'clone', 'link', 'swap'],
      }),
      jobs: flag('--jobs <number>', COUNT, {
        summary: 'processes that pg_upgrade and vacuumdb use at a time',
        default: 1,
      }),
    },
  ),
  ...grouped(
    { group: 'Policy' },
    {
      maxDowntimeMs: flag('--limit downtime=<duration>', DURATION, {
        summary: 'fail if users would have to wait longer',
      }),
    },
  ),
};

/** Everything that a user can set for the rehearsal of a major upgrade. */
export const UPGRADE_SETTINGS = {
  ...UPGRADE_ONLY,
  target: pick(target, 'url', 'urlEnv'),
  clone: {
    method: {
      ...clone.method,
      summary: 'way to clone: auto (copies of the files), or a service: rds, aurora',
    },
    ...pick(clone, 'of', 'maxAgeMs', 'source', 'checkpoint', 'folder', 'ttlMs', 'maxCopyBytes'),
    ...pick(clone, 'allowExternalAccess'),
  },
  proxy: pick(proxy, 'allowClusterStatements'),
  checks: {
    queries: {
      ...checks.queries,
      summary: 'queries to try on both versions: auto, pg_stat_statements, off, or a file',
    },
    check: { ...checks.check, summary: 'query that must return the same rows on both versions; repeatable' },
  },
  timeoutMs,
  sandbox,
};

/** Settings, the command, and how the run communicates with whoever started it. */
export type UpgradeOptions = OptionsOf<typeof UPGRADE_SETTINGS> &
  Pick<RehearseOptions, 'command' | 'commandStdout' | 'interrupts' | 'emit' | 'audit' | 'signal'>;
