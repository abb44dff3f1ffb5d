import type { SettingTree } from '../../settings.ts';
import { MODE_SETTINGS } from './run-table.ts';
import {
  CLEAN_SETTINGS,
  COMMENT_SETTINGS,
  CUT_OVER_SETTINGS,
  DEMO_SETTINGS,
  DOCTOR_SETTINGS,
  EXPLAIN_SETTINGS,
  INIT_SETTINGS,
  KEPT_CLONE_SETTINGS,
  LIST_SETTINGS,
  PROFILE_SETTINGS,
  ROLLBACK_COMMAND_SETTINGS,
  SHOW_SETTINGS,
  UPGRADE_COMMAND_SETTINGS,
} from './subcommand-settings.ts';

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
  list: { options: LIST_SETTINGS, summary: 'show what safemigrate made here and on the server' },
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
    summary: 'swap back to the database that was put aside',
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
