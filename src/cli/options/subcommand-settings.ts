import { REHEARSAL_SETTINGS } from '../../rehearsal/rehearsal-settings.ts';
import { formatOfFile, UPGRADE_FORMATS, type UpgradeFormat } from '../../report/formats.ts';
import { flag, grouped, pick } from '../../settings.ts';
import { ROLLBACK_SETTINGS, SWAP_SETTINGS } from '../../swap/swap-settings.ts';
import { UPGRADE_SETTINGS } from '../../upgrade/upgrade-settings.ts';
import {
  AGE,
  COUNT,
  choiceOf,
  DURATION,
  listOf,
  SECONDS,
  SWITCH,
  TEXT,
  type ValueType,
} from '../../value-types.ts';
import { PROGRAM_SETTINGS } from './run-table.ts';

const target = pick(REHEARSAL_SETTINGS.target, 'url', 'urlEnv');
const { clone, receipt, redact } = REHEARSAL_SETTINGS;
const { report, audit, yes } = PROGRAM_SETTINGS;
const { pgbouncer } = SWAP_SETTINGS.window;

const tableFormat = flag('--format <format>', choiceOf('text', 'json'), {
  summary: 'text or json',
  default: 'text',
  group: 'Report',
});

/** The settings that decide how a clone is made. */
export const DOCTOR_SETTINGS = {
  target,
  clone: pick(
    clone,
    'method',
    'of',
    'rehearsalUrl',
    'source',
    'folder',
    'maxCopyBytes',
    'schemaOnly',
    'allowExternalAccess',
    'external',
  ),
  audit,
  format: tableFormat,
};

/** The service whose clones are looked for, from any machine. */
const atService = { clone: pick(clone, 'method', 'of') };

export const LIST_SETTINGS = { target, ...atService, format: tableFormat };

export const CLEAN_SETTINGS = {
  target,
  ...atService,
  ...grouped(
    { group: 'Clone' },
    {
      kept: flag('--kept', SWITCH, {
        default: false,
        summary: 'also drop clones that were kept with --keep',
      }),
    },
  ),
  ...grouped(
    { group: 'Swap' },
    {
      originals: flag('--originals', SWITCH, {
        default: false,
        summary: 'also drop originals of swaps, for good, once the time of --keep-original is over',
        notInFile: true,
      }),
      rolledBack: flag('--rolled-back', SWITCH, {
        default: false,
        summary: 'also drop databases that a rollback put aside, for good, with the rows that only they have',
        notInFile: true,
      }),
      olderThanMs: flag('--older-than <duration>', AGE, {
        summary:
          'with --originals or --rolled-back: those put aside before that instead, however long they were to be kept',
      }),
    },
  ),
  pgbouncer: {
    ...pgbouncer,
    summary: 'console of a PgBouncer to RESUME after an interrupted swap; repeatable',
  },
};

/** Settings of `safemigrate clone`: clones of the whole cluster that stay. */
export const KEPT_CLONE_SETTINGS = {
  target,
  ...grouped(
    { group: 'Clone' },
    {
      keepForMs: flag('--keep-for <duration>', DURATION, {
        summary: 'how long the clones stay',
        default: 7_200_000,
      }),
      count: flag('--count <count>', COUNT, {
        summary: 'how many clones of the same state to make',
        default: 1,
      }),
    },
  ),
  clone: {
    ...pick(clone, 'source', 'checkpoint', 'folder'),
    databases: { ...clone.databases, summary: 'another database that the clones have; repeatable' },
    afterClone: { ...clone.afterClone, summary: 'SQL, or a file of it, to run before; repeatable' },
    allowExternalAccess: clone.allowExternalAccess,
  },
  audit,
  format: { ...tableFormat, summary: 'text (a URL a line) or json' },
};

export const CUT_OVER_SETTINGS = { target, audit };

export const ROLLBACK_COMMAND_SETTINGS = {
  ...ROLLBACK_SETTINGS,
  yes: { ...yes, summary: 'swap back without asking' },
  audit,
  format: tableFormat,
};

export const SHOW_SETTINGS = {
  format: PROGRAM_SETTINGS.format,
  report,
  redact,
};

export const COMMENT_SETTINGS = grouped(
  { group: 'Report' },
  {
    name: flag('--name <name>', TEXT, {
      summary: 'distinguishes the comments of several reports on one pull request',
    }),
  },
);

export const PROFILE_SETTINGS = {
  target,
  ...grouped(
    { group: 'Profile' },
    {
      out: flag('--out <file>', TEXT, {
        summary: 'where to write the profile; without it, on stdout',
      }),
      windowMs: flag('--window <seconds>', SECONDS, {
        summary: 'how long to watch the traffic; 0: only the averages since the statistics were reset',
        default: 10_000,
      }),
    },
  ),
  receipt: { key: { ...receipt.key, summary: 'sign the profile' } },
  audit,
};

export const INIT_SETTINGS = grouped(
  { group: 'Report' },
  {
    dryRun: flag('--dry-run', SWITCH, {
      default: false,
      summary: 'print what would be written',
      notInFile: true,
    }),
  },
);

export const EXPLAIN_SETTINGS = { format: tableFormat };

export const DEMO_SETTINGS = { report, redact };

const UPGRADE_FILE: ValueType<string> = {
  parse: (text) => {
    const format = formatOfFile(text);
    if (!UPGRADE_FORMATS.some((each) => each === format))
      throw new Error(`is "${text}", and its ending must be that of ${UPGRADE_FORMATS.join(' or ')}.`);
    return text;
  },
  format: (file) => file,
};

export const UPGRADE_COMMAND_SETTINGS = {
  ...UPGRADE_SETTINGS,
  ...grouped(
    { group: 'Report' },
    {
      format: flag('--format <format>', choiceOf<UpgradeFormat>('text', 'json', 'markdown'), {
        summary: 'print the report on stdout: text, json, markdown',
      }),
      report: flag('--report <file>', listOf(UPGRADE_FILE), {
        summary: 'write the report, by its ending (.txt, .json, .md, .html, .xml); repeatable',
      }),
    },
  ),
  audit,
};
