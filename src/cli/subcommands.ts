import {
  CLEAN_OPTIONS,
  COMMENT_OPTIONS,
  DEMO_OPTIONS,
  DOCTOR_OPTIONS,
  LIST_OPTIONS,
  type OptionTable,
  ROLLBACK_OPTIONS,
  SHOW_OPTIONS,
} from './options-table.ts';

interface Subcommand {
  readonly options: OptionTable;
  readonly description: string;
  /** What may stand behind its name, as commander writes it. */
  readonly argument?: string;
}

/** Everything beside rehearsing, in the order of the help. */
export const SUBCOMMANDS = {
  doctor: {
    options: DOCTOR_OPTIONS,
    description: 'show which ways to clone work here, why not, and what would help',
  },
  list: {
    options: LIST_OPTIONS,
    description: 'show the clones and originals that safemigrate made, and whose they are',
  },
  clean: {
    options: CLEAN_OPTIONS,
    description: 'open what dead runs left closed, drop what they left behind, and nothing else',
  },
  rollback: {
    options: ROLLBACK_OPTIONS,
    description: 'swap the original back that a swap has kept; the newer database is kept as well',
    argument: '[run]',
  },
  pause: {
    options: {},
    description: 'hold back what an apply that runs on this machine would begin next',
    argument: '[run]',
  },
  resume: { options: {}, description: 'let a paused apply go on', argument: '[run]' },
  abort: {
    options: {},
    description: 'end an apply that runs on this machine, between two statements',
    argument: '[run]',
  },
  show: {
    options: SHOW_OPTIONS,
    description: 'print or re-render the report of an earlier run; the last one, if none is named',
    argument: '[run]',
  },
  explain: {
    options: {},
    description: 'say what a hazard is, when it is found, and what to do instead; without CODE, list all',
    argument: '[code]',
  },
  comment: {
    options: COMMENT_OPTIONS,
    description: 'put a Markdown report into the comment of this pull request or merge request (in CI)',
    argument: '[report]',
  },
  completion: {
    options: {},
    description: 'print what makes a shell complete our words: bash, zsh or fish',
    argument: '[shell]',
  },
  demo: {
    options: DEMO_OPTIONS,
    description: 'the whole thing on a PostgreSQL of its own, nothing to set up',
  },
} as const satisfies Readonly<Record<string, Subcommand>>;

export type SubcommandName = keyof typeof SUBCOMMANDS;

export function subcommands(): [SubcommandName, Subcommand][] {
  return Object.entries(SUBCOMMANDS) as [SubcommandName, Subcommand][];
}
