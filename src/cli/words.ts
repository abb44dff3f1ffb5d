import { SafemigrateError } from '../errors.ts';

export const SUBCOMMANDS = ['list', 'clean', 'demo', 'help'] as const;
export type Subcommand = (typeof SUBCOMMANDS)[number];

export interface Words {
  /** What stands before the first `--`. */
  readonly own: string[];
  /** What stands after it, whatever its words; undefined where there is no `--`. */
  readonly command: string[] | undefined;
}

/** Splits before any parser sees the words: `safemigrate -- clean` runs a program named clean. */
export function splitWords(argv: readonly string[]): Words {
  const dashes = argv.indexOf('--');
  if (dashes === -1) return { own: [...argv], command: undefined };
  return { own: argv.slice(0, dashes), command: argv.slice(dashes + 1) };
}

export function noCommand(own: readonly string[]): SafemigrateError {
  const stray = own.find((word) => !word.startsWith('-'));
  return new SafemigrateError(
    'USAGE',
    stray === undefined ? 'there is no command to rehearse' : `"${stray}" is no subcommand of safemigrate`,
    {
      hint:
        stray === undefined
          ? 'Put your migration command behind two dashes: safemigrate -- npx prisma migrate deploy'
          : `If it is the command to rehearse, put it behind two dashes: safemigrate -- ${own.slice(own.indexOf(stray)).join(' ')}`,
    },
  );
}
