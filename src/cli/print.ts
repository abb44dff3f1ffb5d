import { maskPasswords } from '../command/command-secrets.ts';
import { codeOf, messageOf, type SafemigrateError } from '../errors.ts';
import type { PrintedError } from '../model/report.ts';
import { endingLines, type VerdictLine } from '../report/ending.ts';
import { visible, visibleJson } from '../report/visible.ts';
import { withoutCommands } from './ci/log-commands.ts';
import { styleOf } from './style.ts';

/** Prints a foreseeable failure: what happened, the server's code, what to do. */
export function printError(error: SafemigrateError): void {
  // After a list, on the same line, it would seem to belong to the last item.
  const before = error.message.includes('\n') ? '\n  ' : ' ';
  const sqlstate = error.sqlstate ? `${before}(SQLSTATE ${error.sqlstate})` : '';
  const hint = error.hint ? `\n${indent(error.hint)}` : '';
  // A message may quote the command line, and that may hold a URL.
  process.stderr.write(visibleLines(maskPasswords(`safemigrate: ${error.message}${sqlstate}${hint}\n`)));
}

/** Failures of the operating system, which are not bugs of ours: something is full, or read-only. */
const OF_THE_SYSTEM = new Set(['ENOSPC', 'EDQUOT', 'EROFS', 'ENOMEM', 'EMFILE', 'ENFILE', 'EIO', 'EAGAIN']);

const LEFT = '  Run `safemigrate list` to see whether a clone is left, and `safemigrate clean` to drop it.\n';

/** Prints the verdict as the last line of a run. */
export function printEnding(ending: VerdictLine): void {
  const lines = endingLines(ending, styleOf(process.stderr));
  process.stderr.write(withoutCommands(`${lines.join('\n')}\n`));
}

/** Longer texts do not fit into a summary of 2 kB. */
const SUMMARY_CHARACTERS = 700;

/**
 * Prints the one object on stdout of an ending without a report, if the output is for a program.
 * @param error undefined: a bug of ours, whose details are on stderr.
 */
export function printErrorObject(
  format: ProgramFormat,
  error: SafemigrateError | undefined,
  exitCode: number,
): void {
  const shown = (text: string) =>
    maskPasswords(
      format === 'json' || text.length <= SUMMARY_CHARACTERS ? text : `${text.slice(0, SUMMARY_CHARACTERS)}…`,
    );
  const printed: PrintedError = {
    error: {
      code: error?.code ?? 'INTERNAL',
      message: shown(error?.message ?? 'This is a bug in safemigrate: standard error has the details.'),
      hint:
        error === undefined
          ? 'Run `safemigrate list` to see whether a clone is left.'
          : error.hint === undefined
            ? null
            : shown(error.hint),
      sqlstate: error?.sqlstate ?? null,
      exitCode,
    },
  };
  process.stdout.write(jsonText(printed));
}

/** The formats whose standard output is one JSON object in every ending. */
export type ProgramFormat = 'json' | 'summary';

/**
 * Finds the format for programs that the words before `--`, or else the environment, ask for. It is known before the options are
 * read, since they may be wrong.
 */
export function programFormat(words: readonly string[], env: NodeJS.ProcessEnv): ProgramFormat | undefined {
  const at = words.findLastIndex((word) => word === '--format' || word.startsWith('--format='));
  const word = words[at] ?? '';
  const given = word.includes('=') ? word.slice('--format='.length) : words[at + 1];
  const asked = at === -1 ? env.SAFEMIGRATE_FORMAT : given;
  return isProgramFormat(asked) ? asked : undefined;
}

export function isProgramFormat(format: unknown): format is ProgramFormat {
  return format === 'json' || format === 'summary';
}

export function jsonText(value: unknown): string {
  return `${visibleJson(JSON.stringify(value, null, 2))}\n`;
}

/** Prints a bug of ours: only here a stack trace is of use. */
export function printUnforeseen(error: unknown): void {
  if (OF_THE_SYSTEM.has(codeOf(error))) {
    process.stderr.write(
      visibleLines(`safemigrate: The operating system refused: ${messageOf(error)}.\n${LEFT}`),
    );
    return;
  }
  const details = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(
    withoutCommands(
      `safemigrate: Internal error: this is a bug in safemigrate.\n` +
        LEFT +
        `  Please report what follows.\n${indent(details)}\n`,
    ),
  );
}

/** Makes control characters visible: others choose the names of databases, roles and applications. */
export function visibleLines(text: string): string {
  return withoutCommands(text.split('\n').map(visible).join('\n'));
}

function indent(text: string): string {
  return text
    .split('\n')
    .map((line) => `  ${line}`)
    .join('\n');
}
