import { UPGRADE_MODES, type UpgradeMode } from '../../model/upgrade-mode.ts';
import { formatOfFile, UPGRADE_FORMATS, type UpgradeFormat } from '../../report/formats.ts';
import { UPGRADE_DEFAULTS, type UpgradeSettings } from '../../upgrade/upgrade-options.ts';
import { declareOptions } from './option-spec.ts';
import { REHEARSAL_TABLE } from './rehearsal-table.ts';
import { PROGRAM_TABLE } from './run-table.ts';
import { COUNT, choiceOf, DURATION, listOf, TEXT, type ValueType } from './value-types.ts';

const MAJOR: ValueType<number> = {
  parse: (text) => {
    if (!/^(1[5-9]|[2-9]\d)$/.test(text.trim()))
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

const { url, urlEnv, source, checkpoint, cloneDir, cloneTtlMs, maxCopyBytes } = REHEARSAL_TABLE;
const { allowExternalAccess, queries, check, timeoutMs, allowClusterStatements } = REHEARSAL_TABLE;
const { sandbox, sandboxAllow } = REHEARSAL_TABLE;

/** How a major upgrade is rehearsed. */
export const UPGRADE_TABLE = declareOptions<UpgradeSettings>(UPGRADE_DEFAULTS, {
  url,
  urlEnv,
  source,
  to: {
    flag: '--to <version>',
    summary: 'the major version to upgrade to',
    group: 'Target',
    type: MAJOR,
  },
  newBin: {
    flag: '--new-bin <folder>',
    summary: "the new version's programs; without it, where packages put them",
    group: 'Target',
    type: TEXT,
    notInFile: true,
  },
  oldBin: {
    flag: '--old-bin <folder>',
    summary: "the old version's programs; without it, those of the running server",
    group: 'Target',
    type: TEXT,
    notInFile: true,
  },
  modes: {
    flag: '--modes <modes>',
    summary: `modes of pg_upgrade to try: ${UPGRADE_MODES.join(', ')}`,
    group: 'Clone',
    type: MODES,
  },
  jobs: {
    flag: '--jobs <number>',
    summary: 'processes that pg_upgrade and vacuumdb use at a time',
    group: 'Clone',
    type: COUNT,
  },
  maxDowntimeMs: {
    flag: '--max-downtime <duration>',
    summary: 'fail if users would have to wait longer',
    group: 'Policy',
    type: DURATION,
  },
  checkpoint,
  cloneDir,
  cloneTtlMs,
  maxCopyBytes,
  allowExternalAccess,
  queries: {
    ...queries,
    summary: 'queries to try on both versions: auto, pg_stat_statements, off, or a file',
  },
  check: { ...check, summary: 'query that must return the same rows on both versions; repeatable' },
  timeoutMs,
  allowClusterStatements,
  sandbox,
  sandboxAllow,
});

const UPGRADE_FILE: ValueType<string> = {
  parse: (text) => {
    const format = formatOfFile(text);
    if (!UPGRADE_FORMATS.some((each) => each === format))
      throw new Error(`is "${text}", and its ending must be that of ${UPGRADE_FORMATS.join(' or ')}.`);
    return text;
  },
  format: (file) => file,
};

export const UPGRADE_OPTIONS = {
  ...UPGRADE_TABLE,
  format: {
    flag: '--format <format>',
    summary: 'print the report on stdout: text, json, markdown',
    group: 'Report',
    type: choiceOf<UpgradeFormat>('text', 'json', 'markdown'),
  },
  report: {
    flag: '--report <file>',
    summary: 'write the report, by its ending (.txt, .json, .md, .html, .xml); repeatable',
    group: 'Report',
    type: listOf(UPGRADE_FILE),
  },
  audit: PROGRAM_TABLE.audit,
} as const;
