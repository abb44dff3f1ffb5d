import { SafemigrateError } from '../errors.ts';

export interface SplitArguments {
  /** The words before the first `--`. */
  readonly own: string[];
  /** The words after it, whatever they are; undefined if there is no `--`. */
  readonly command: string[] | undefined;
}

/** Splits argv before a parser sees it: `safemigrate -- clean` runs a program named clean. */
export function splitWords(argv: readonly string[]): SplitArguments {
  const dashes = argv.indexOf('--');
  if (dashes === -1) return { own: [...argv], command: undefined };
  return { own: argv.slice(0, dashes), command: argv.slice(dashes + 1) };
}

export function noCommand(): SafemigrateError {
  return new SafemigrateError('USAGE', 'There is no command to rehearse.', {
    hint: 'Put your migration command after two dashes: safemigrate -- npx prisma migrate deploy',
  });
}

/** Makes the error for words before `--` that are neither options nor a subcommand. */
export function strayWords(words: readonly string[], hasCommand: boolean): SafemigrateError {
  const [first = ''] = words;
  if (hasCommand) {
    return new SafemigrateError('USAGE', `Unexpected argument "${first}" before "--".`, {
      hint: 'Options of safemigrate come before --, your migration command after it.',
    });
  }
  return new SafemigrateError('USAGE', `"${first}" is no subcommand of safemigrate.`, {
    hint: `If it is the command to rehearse, put it after two dashes: safemigrate -- ${words.join(' ')}`,
  });
}
