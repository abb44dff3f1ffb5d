import { maskPasswords } from '../command/command-secrets.ts';
import { codeOf, messageOf, type SafemigrateError } from '../errors.ts';
import { endingLines, type VerdictLine } from '../report/ending.ts';
import { visible } from '../report/visible.ts';
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
