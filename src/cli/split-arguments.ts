import { SafemigrateError } from '../errors.ts';

export interface SplitArguments {
  /** What stands before the first `--`. */
  readonly own: string[];
  /** What stands after it, whatever its words; undefined where there is no `--`. */
  readonly command: string[] | undefined;
}

/** Splits before any parser sees the words: `safemigrate -- clean` runs a program named clean. */
export function splitWords(argv: readonly string[]): SplitArguments {
  const dashes = argv.indexOf('--');
  if (dashes === -1) return { own: [...argv], command: undefined };
  return { own: argv.slice(0, dashes), command: argv.slice(dashes + 1) };
}

export function noCommand(): SafemigrateError {
  return new SafemigrateError('USAGE', 'There is no command to rehearse.', {
    hint: 'Put your migration command behind two dashes: safemigrate -- npx prisma migrate deploy',
  });
}

/** Words before `--` that are neither options nor a subcommand. */
export function strayWords(words: readonly string[], hasCommand: boolean): SafemigrateError {
  const [first = ''] = words;
  if (hasCommand) {
    return new SafemigrateError('USAGE', `"${first}" stands before the two dashes, and is no option.`, {
      hint: 'What stands before -- is for safemigrate, what stands behind it is your migration command.',
    });
  }
  return new SafemigrateError('USAGE', `"${first}" is no subcommand of safemigrate.`, {
    hint: `If it is the command to rehearse, put it behind two dashes: safemigrate -- ${words.join(' ')}`,
  });
}
