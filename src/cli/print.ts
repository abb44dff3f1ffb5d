import type { SafemigrateError } from '../errors.ts';

/** A foreseeable failure in words: what happened, the server's code, what to do. */
export function printError(error: SafemigrateError): void {
  const sqlstate = error.sqlstate ? ` (SQLSTATE ${error.sqlstate})` : '';
  const hint = error.hint ? `\n${indent(error.hint)}` : '';
  process.stderr.write(`safemigrate: ${error.message}${sqlstate}${hint}\n`);
}

function indent(text: string): string {
  return text
    .split('\n')
    .map((line) => `  ${line}`)
    .join('\n');
}
