import { REHEARSAL_SETTINGS } from '../../rehearsal/rehearsal-settings.ts';
import { formatOfFile, UPGRADE_FORMATS, type UpgradeFormat } from '../../report/formats.ts';
import { flag, grouped, pick, type SettingTree } from '../../settings.ts';
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
import { MODE_SETTINGS, PROGRAM_SETTINGS } from './run-table.ts';

interface Subcommand {
  readonly options: SettingTree;
  readonly summary: string;
  /** The word that may follow its name, as commander writes it. */
  readonly argument?: string;
  /** A command may follow, after `--`. */
  readonly takesCommand?: true;
  /** Shown by a plain `--help`; default: yes. */
  readonly common?: boolean;
}

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
      olderThanMs: flag('--older-than <duration>', AGE, {
        summary: 'with --originals: those of swaps before that instead, however long they were to be kept',
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

export const CUT_OVER_SETTINGS = { target };

export const ROLLBACK_COMMAND_SETTINGS = {
  ...ROLLBACK_SETTINGS,
  yes: { ...yes, summary: 'swap back without asking' },
  audit,
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

export const EXPLAIN_SETTINGS = grouped(
  { group: 'Report' },
  { json: flag('--json', SWITCH, { default: false, summary: 'print it as JSON', notInFile: true }) },
);

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

/** Everything but a run, in the order of the help. */
const SUBCOMMANDS = {
  apply: {
    options: MODE_SETTINGS.apply,
    summary: 'rehearse, ask, then run the command on the target',
    takesCommand: true,
  },
  swap: {
    options: MODE_SETTINGS.swap,
    summary: 'rehearse, migrate a clone, and rename it to the target',
    takesCommand: true,
  },
  init: {
    options: INIT_SETTINGS,
    summary: 'write a config and a CI job for this project',
  },
  doctor: { options: DOCTOR_SETTINGS, summary: 'show which ways to clone work here, and why not' },
  list: { options: LIST_SETTINGS, summary: 'show the clones and originals that safemigrate made' },
  clean: { options: CLEAN_SETTINGS, summary: 'drop what dead runs left behind, and nothing else' },
  clone: { options: KEPT_CLONE_SETTINGS, summary: 'make clones that stay, and that `reset` brings back' },
  reset: {
    options: {},
    summary: 'bring a clone back to its first state, by copy-on-write',
    argument: '[clone]',
    // `clone` names it.
    common: false,
  },
  'cut-over': {
    options: CUT_OVER_SETTINGS,
    summary: 'let an online swap go on that waits for its order',
    argument: '[run]',
    // The page about swaps names it.
    common: false,
  },
  rollback: {
    options: ROLLBACK_COMMAND_SETTINGS,
    summary: 'swap back to the original that a swap has kept',
    argument: '[run]',
  },
  pause: {
    options: {},
    summary: 'hold an apply before its next statement',
    argument: '[run]',
    // The page about applies names it, resume and abort.
    common: false,
  },
  resume: { options: {}, summary: 'let a paused apply continue', argument: '[run]', common: false },
  abort: { options: {}, summary: 'end an apply between two statements', argument: '[run]', common: false },
  show: {
    options: SHOW_SETTINGS,
    summary: 'print the report of a run, or write it to a file',
    argument: '[run]',
  },
  profile: {
    options: PROFILE_SETTINGS,
    summary: "write production's sizes and rates down, for --profile",
    // `--profile` names it.
    common: false,
  },
  upgrade: {
    options: UPGRADE_COMMAND_SETTINGS,
    summary: 'rehearse a major upgrade on copies of the server',
    takesCommand: true,
  },
  explain: {
    options: EXPLAIN_SETTINGS,
    summary: 'explain a hazard and what to do instead; list all',
    argument: '[code]',
  },
  schema: {
    options: {},
    summary: 'JSON Schema of a report, summary, error, profile or upgrade',
    argument: '[name]',
    // The notes below the help name it.
    common: false,
  },
  comment: {
    options: COMMENT_SETTINGS,
    summary: 'put a Markdown report on the pull request, in CI',
    argument: '[report]',
    common: false,
  },
  completion: {
    options: {},
    summary: 'completion script for bash, zsh or fish',
    argument: '[shell]',
    common: false,
  },
  demo: { options: DEMO_SETTINGS, summary: 'try it on a private PostgreSQL, nothing to set up' },
} as const satisfies Readonly<Record<string, Subcommand>>;

export type SubcommandName = keyof typeof SUBCOMMANDS;

export function subcommands(): [SubcommandName, Subcommand][] {
  return Object.entries(SUBCOMMANDS) as [SubcommandName, Subcommand][];
}
