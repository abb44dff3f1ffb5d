import type { OptionSpec, OptionTable } from './option-spec.ts';
import { REHEARSAL_TABLE } from './rehearsal-table.ts';
import { PROGRAM_TABLE } from './run-table.ts';
import { SWAP_TABLE } from './swap-table.ts';
import { UPGRADE_OPTIONS } from './upgrade-table.ts';
import { AGE, COUNT, choiceOf, DURATION, SECONDS, SWITCH, TEXT } from './value-types.ts';

interface Subcommand {
  readonly options: OptionTable;
  readonly summary: string;
  /** What may follow its name, as commander writes it. */
  readonly argument?: string;
  /** A command may follow, after `--`. */
  readonly takesCommand?: true;
  /** Shown by a plain `--help`; default: yes. */
  readonly common?: boolean;
}

const { url, urlEnv } = REHEARSAL_TABLE;
const TARGET = { url, urlEnv };
const { report, audit } = PROGRAM_TABLE;
const { redact, maxStallMs } = REHEARSAL_TABLE;
const { pgbouncer, allowStandbys } = SWAP_TABLE;

const TABLE_FORMAT = {
  flag: '--format <format>',
  summary: 'text or json',
  group: 'Report',
  type: choiceOf('text', 'json'),
  default: 'text',
} as const satisfies OptionSpec<'text' | 'json'>;

/** The options that decide how a clone is made. */
export const DOCTOR_OPTIONS = {
  ...TARGET,
  clone: REHEARSAL_TABLE.clone,
  rehearsalUrl: REHEARSAL_TABLE.rehearsalUrl,
  source: REHEARSAL_TABLE.source,
  cloneDir: REHEARSAL_TABLE.cloneDir,
  maxCopyBytes: REHEARSAL_TABLE.maxCopyBytes,
  schemaOnly: REHEARSAL_TABLE.schemaOnly,
  allowExternalAccess: REHEARSAL_TABLE.allowExternalAccess,
  cloneCreate: REHEARSAL_TABLE.cloneCreate,
  cloneDestroy: REHEARSAL_TABLE.cloneDestroy,
  audit,
  format: TABLE_FORMAT,
};

export const LIST_OPTIONS = { ...TARGET, format: TABLE_FORMAT };

export const CLEAN_OPTIONS = {
  ...TARGET,
  kept: {
    flag: '--kept',
    summary: 'also drop clones that were kept with --keep',
    group: 'Clone',
    type: SWITCH,
  },
  originals: {
    flag: '--originals',
    summary: 'also drop originals of swaps, for good, once the time of --keep-original is over',
    group: 'Swap',
    type: SWITCH,
    notInFile: true,
  },
  olderThanMs: {
    flag: '--older-than <duration>',
    summary: 'with --originals: those of swaps before that instead, however long they were to be kept',
    group: 'Swap',
    type: AGE,
  },
  pgbouncer: {
    ...pgbouncer,
    summary:
      'console of a PgBouncer whose clients still wait after a swap that was cut off: they go on; repeatable',
  },
} as const satisfies OptionTable;

/** `safemigrate clone`: clones of the whole cluster that stay. */
export const CLONE_OPTIONS = {
  ...TARGET,
  keepForMs: {
    flag: '--keep-for <duration>',
    summary: 'how long the clones stay',
    group: 'Clone',
    type: DURATION,
    default: 7_200_000,
  },
  count: {
    flag: '--count <count>',
    summary: 'how many clones of the same state to make',
    group: 'Clone',
    type: COUNT,
    default: 1,
  },
  source: REHEARSAL_TABLE.source,
  checkpoint: REHEARSAL_TABLE.checkpoint,
  cloneDir: REHEARSAL_TABLE.cloneDir,
  databases: { ...REHEARSAL_TABLE.databases, summary: 'another database that the clones have; repeatable' },
  afterClone: { ...REHEARSAL_TABLE.afterClone, summary: 'SQL, or a file of it, to run before; repeatable' },
  allowExternalAccess: REHEARSAL_TABLE.allowExternalAccess,
  audit,
  format: { ...TABLE_FORMAT, summary: 'text (a URL a line) or json' },
} as const satisfies OptionTable;

export const ROLLBACK_OPTIONS = {
  ...TARGET,
  discardWrites: {
    flag: '--discard-writes',
    summary: 'give up what was written since the swap: it stays in the database that is kept',
    group: 'Swap',
    type: SWITCH,
    notInFile: true,
  },
  yes: { ...PROGRAM_TABLE.yes, summary: 'swap back without asking' },
  pgbouncer,
  maxStallMs: { ...maxStallMs, summary: 'longest time that the target may be closed', default: null },
  allowStandbys,
  audit,
} as const satisfies OptionTable;

export const SHOW_OPTIONS = {
  format: PROGRAM_TABLE.format,
  verbose: PROGRAM_TABLE.verbose,
  report,
  redact,
} as const satisfies OptionTable;

export const COMMENT_OPTIONS = {
  name: {
    flag: '--name <name>',
    summary: 'distinguishes the comments of several reports on one pull request',
    group: 'Report',
    type: TEXT,
  },
} as const satisfies OptionTable;

export const PROFILE_OPTIONS = {
  ...TARGET,
  out: {
    flag: '--out <file>',
    summary: 'where to write the profile; without it, on stdout',
    group: 'Profile',
    type: TEXT,
  },
  windowMs: {
    flag: '--window <seconds>',
    summary: 'how long to watch the traffic; 0: only the averages since the statistics were reset',
    group: 'Profile',
    type: SECONDS,
    default: 10_000,
  },
  receiptKey: { ...REHEARSAL_TABLE.receiptKey, summary: 'sign the profile' },
  audit,
} as const satisfies OptionTable;

export const INIT_OPTIONS = {
  dryRun: {
    flag: '--dry-run',
    summary: 'print what would be written',
    group: 'Report',
    type: SWITCH,
    notInFile: true,
  },
} as const satisfies OptionTable;

export const DEMO_OPTIONS = { report, redact };

/** Everything but a run, in the order of the help. */
export const SUBCOMMANDS = {
  init: {
    options: INIT_OPTIONS,
    summary: 'write a config and a CI job for this project',
  },
  doctor: { options: DOCTOR_OPTIONS, summary: 'show which ways to clone work here, and why not' },
  list: { options: LIST_OPTIONS, summary: 'show the clones and originals that safemigrate made' },
  clean: { options: CLEAN_OPTIONS, summary: 'drop what dead runs left behind, and nothing else' },
  clone: { options: CLONE_OPTIONS, summary: 'make clones that stay, and that `reset` brings back' },
  reset: {
    options: {},
    summary: 'bring a clone back to its first state, by copy-on-write',
    argument: '[clone]',
    // `clone` names it.
    common: false,
  },
  rollback: {
    options: ROLLBACK_OPTIONS,
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
    options: SHOW_OPTIONS,
    summary: 'print the report of a run, or write it to a file',
    argument: '[run]',
  },
  profile: {
    options: PROFILE_OPTIONS,
    summary: "write production's sizes and rates down, for --profile",
    // `--profile` names it.
    common: false,
  },
  upgrade: {
    options: UPGRADE_OPTIONS,
    summary: 'rehearse a major upgrade on copies of the server',
    takesCommand: true,
  },
  explain: {
    options: {},
    summary: 'explain a hazard and what to do instead; list all',
    argument: '[code]',
  },
  comment: {
    options: COMMENT_OPTIONS,
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
  demo: { options: DEMO_OPTIONS, summary: 'try it on a private PostgreSQL, nothing to set up' },
} as const satisfies Readonly<Record<string, Subcommand>>;

export type SubcommandName = keyof typeof SUBCOMMANDS;

export function subcommands(): [SubcommandName, Subcommand][] {
  return Object.entries(SUBCOMMANDS) as [SubcommandName, Subcommand][];
}
