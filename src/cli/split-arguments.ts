import { SafemigrateError } from '../errors.ts';
import type { RunMode } from '../settings.ts';

export type SplitArguments = ReturnType<typeof splitWords>;

/**
 * Splits argv before a parser sees it: `safemigrate -- clean` runs a program named clean.
 * @returns the words before the first `--`, and those after it, whatever they are: undefined if there is no `--`.
 */
export function splitWords(argv: readonly string[]): { own: string[]; command: string[] | undefined } {
  const dashes = argv.indexOf('--');
  if (dashes === -1) return { own: [...argv], command: undefined };
  return { own: argv.slice(0, dashes), command: argv.slice(dashes + 1) };
}

export function noCommand(mode: RunMode): SafemigrateError {
  const call = mode === 'rehearse' ? 'safemigrate' : `safemigrate ${mode}`;
  return new SafemigrateError('USAGE', 'There is no command to rehearse.', {
    hint: `Put your migration command after two dashes: ${call} -- npx prisma migrate deploy`,
  });
}

/**
 * Makes the error for words before `--` that are neither options nor a subcommand.
 * @param subcommand the one that they follow, which takes a command after `--`.
 */
export function strayWords(
  words: readonly string[],
  hasCommand: boolean,
  subcommand?: string,
): SafemigrateError {
  const [first = ''] = words;
  if (hasCommand) {
    return new SafemigrateError('USAGE', `Unexpected argument "${first}" before "--".`, {
      hint: 'Options of safemigrate come before --, your migration command after it.',
    });
  }
  const call = subcommand === undefined ? 'safemigrate' : `safemigrate ${subcommand}`;
  return new SafemigrateError('USAGE', `"${first}" is no subcommand of ${call}.`, {
    hint: `If it is the command to rehearse, put it after two dashes: ${call} -- ${words.join(' ')}`,
  });
}
