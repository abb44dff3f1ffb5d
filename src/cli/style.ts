import { inCi } from '../rehearsal/sizes-caveat.ts';
import type { TextStyle } from '../report/text-layout.ts';
import { visible } from '../report/visible.ts';

export interface TerminalStyle extends TextStyle {
  /** Lines may be rewritten in place: a person is watching a real terminal. */
  readonly interactive: boolean;
}

const DEFAULT_COLUMNS = 80;
/** Longer lines are hard to read, however wide the terminal is. */
const MAX_COLUMNS = 100;
const MIN_COLUMNS = 20;

/**
 * Decides how to write to this stream: FORCE_COLOR outranks NO_COLOR, and both outrank the kind of the terminal.
 * @param stream only a terminal has `isTTY` and `columns`.
 */
export function styleOf(
  stream: { readonly isTTY?: boolean; readonly columns?: number },
  env: Readonly<Record<string, string | undefined>> = process.env,
): TerminalStyle {
  const terminal = stream.isTTY === true && env.TERM !== 'dumb';
  return {
    columns: columnsOf(stream.columns),
    colour: forced(env.FORCE_COLOR) ?? (terminal && !isSet(env.NO_COLOR)),
    unicode: /utf-?8/i.test(env.LC_ALL || env.LC_CTYPE || env.LANG || ''),
    interactive: terminal && !inCi(env),
  };
}

/** A terminal that reports 0 columns does not know its width. */
function columnsOf(columns: number | undefined): number {
  return columns ? Math.min(MAX_COLUMNS, Math.max(MIN_COLUMNS, columns)) : DEFAULT_COLUMNS;
}

function forced(value: string | undefined): boolean | undefined {
  if (!isSet(value)) return undefined;
  return value !== '0' && value !== 'false';
}

/** The conventions of NO_COLOR and FORCE_COLOR: an empty value is none. */
function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== '';
}

/** Columns aligned by their widest cell, two spaces apart; the text ends in a newline. */
export function textTable(head: string[], rows: string[][]): string {
  const lines = [head, ...rows.map((row) => row.map(visible))];
  const widths = head.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map(
      (line) =>
        `${line
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}
