import { visible } from './visible.ts';
import { displayWidth, type Grapheme, graphemes } from './width.ts';

export interface TextStyle {
  /** Width of the terminal; no line is longer. */
  readonly columns: number;
  readonly colour: boolean;
  /** Marks such as `→` may be used; otherwise only ASCII. Names and messages are shown as they are. */
  readonly unicode: boolean;
  /** Everything that the report has for a person (`--verbose`), instead of what is read at first. */
  readonly verbose?: boolean;
}

/** Colours only stress what words and marks already say. */
export type Tone = 'plain' | 'strong' | 'dim' | 'good' | 'warning' | 'bad' | 'alarm';
export type Span = string | { readonly text: string; readonly tone: Tone };

const SGR: Record<Tone, string> = {
  plain: '',
  strong: '1',
  dim: '2',
  good: '1;32',
  warning: '1;33',
  bad: '1;31',
  alarm: '1;7;31',
};

export function tone(name: Tone, text: string): Span {
  return { text, tone: name };
}

export function marks(style: TextStyle) {
  return style.unicode
    ? { pass: '✓', fail: '✗', warning: '▲', notice: '•', arrow: '→', more: '…', rule: '─' }
    : { pass: 'OK', fail: 'XX', warning: '!', notice: '*', arrow: '->', more: '...', rule: '-' };
}

interface Cell extends Grapheme {
  readonly tone: Tone;
}

/**
 * Breaks the spans into lines no wider than the terminal, at blanks if possible. Everything that is printed passes through
 * here and is escaped here. Lines are indented by `hanging`; the first one starts with `first`.
 */
export function flow(style: TextStyle, spans: Span[], hanging = 0, first?: Span[]): string[] {
  const room = Math.max(8, style.columns);
  const indent = Math.min(hanging, Math.floor(room / 2));
  const lead = first ? cellsOf(first) : blanks(indent);
  const lines: string[] = [];
  let line = lead;
  let start = line.length;
  let width = widthOf(line);
  const cells = withoutTrailingBlanks(cellsOf(spans));
  for (const [index, cell] of cells.entries()) {
    if (width + cell.width > room) {
      const space = breakIn(line, start);
      // A word is broken only if it is wider than a line: paths and names can be copied whole.
      const fitsBelow = () =>
        indent + widthOf(line.slice(space + 1)) + restOfWord(cells, index, room) <= room;
      const breakAt = space > start && fitsBelow() ? space + 1 : line.length;
      lines.push(paint(style, line.slice(0, breakAt)));
      const rest = line.slice(breakAt);
      line = [...blanks(indent), ...(rest[0]?.text === ' ' ? rest.slice(1) : rest)];
      start = indent;
      width = widthOf(line);
      if (cell.text === ' ' && rest.length === 0) continue;
    }
    line.push(cell);
    width += cell.width;
  }
  lines.push(paint(style, line));
  return lines;
}

/** Columns from a cell to the end of its word, counted until there are more than `most`. */
function restOfWord(cells: readonly Cell[], from: number, most: number): number {
  let width = 0;
  for (let at = from; width <= most && at < cells.length && cells[at]?.text !== ' '; at++)
    width += cells[at]?.width ?? 0;
  return width;
}

/** One line, which ends in a mark if it had to be cut. */
export function cutLine(style: TextStyle, spans: Span[]): string {
  const cells = withoutTrailingBlanks(cellsOf(spans));
  if (widthOf(cells) <= style.columns) return paint(style, cells);
  const more = cellsOf([tone('dim', marks(style).more)]);
  let room = style.columns - widthOf(more);
  const end = cells.findIndex(({ width }) => {
    room -= width;
    return room < 0;
  });
  return paint(style, [...withoutTrailingBlanks(cells.slice(0, end)), ...more]);
}

/** The last blank at which the line may be broken, preferably not between a number and its unit. */
function breakIn(line: Cell[], start: number): number {
  const isBlank = (each: Cell, index: number) => index >= start && each.text === ' ';
  const between = line.findLastIndex(
    (each, index) => isBlank(each, index) && !/\d/.test(line[index - 1]?.text ?? ''),
  );
  return between > start ? between : line.findLastIndex(isBlank);
}

function cellsOf(spans: Span[]): Cell[] {
  return spans.flatMap((span) => {
    const { text, tone } = typeof span === 'string' ? { text: span, tone: 'plain' as const } : span;
    return graphemes(visible(text)).map((each) => ({ text: each.text, width: each.width, tone }));
  });
}

function withoutTrailingBlanks(cells: Cell[]): Cell[] {
  return cells.slice(0, cells.findLastIndex((cell) => cell.text !== ' ') + 1);
}

function blanks(count: number): Cell[] {
  return Array.from({ length: count }, () => ({ text: ' ', width: 1, tone: 'plain' as const }));
}

function widthOf(cells: Cell[]): number {
  return cells.reduce((sum, cell) => sum + cell.width, 0);
}

function paint(style: TextStyle, cells: Cell[]): string {
  let text = '';
  let current: Tone = 'plain';
  for (const cell of withoutTrailingBlanks(cells)) {
    if (style.colour && cell.tone !== current) {
      text += `${current === 'plain' ? '' : '\x1b[0m'}${cell.tone === 'plain' ? '' : `\x1b[${SGR[cell.tone]}m`}`;
      current = cell.tone;
    }
    text += cell.text;
  }
  return current === 'plain' ? text : `${text}\x1b[0m`;
}

/** A row of a table: its columns, and text on a line of its own below them. */
export interface TextRow {
  readonly columns: Span[];
  readonly align?: ('left' | 'right')[];
  readonly below?: Span[];
}

/**
 * Aligns columns if they fit into the terminal. A row that is too wide becomes running text, and so do all rows if the terminal
 * is too narrow for the columns together.
 */
export function layoutTable(style: TextStyle, rows: TextRow[], indent = 2): string[] {
  const fits = (widths: number[]) =>
    widths.reduce((sum, width) => sum + (width > 0 ? width + 2 : 0), indent - 2) <= style.columns;
  const widthsOf = (row: TextRow) => row.columns.map((span) => displayWidth(visible(plainTextOf(span))));
  const widths: number[] = [];
  for (const row of rows.map(widthsOf).filter(fits))
    for (const [index, width] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, width);
  const isTable = fits(widths);
  return rows.flatMap((row) => [
    ...(isTable && fits(widthsOf(row))
      ? flow(style, aligned(row, widths, indent))
      : stacked(style, row, indent)),
    ...(row.below ? flow(style, row.below, indent + 4, [' '.repeat(indent + 2)]) : []),
  ]);
}

function aligned(row: TextRow, widths: number[], indent: number): Span[] {
  const spans: Span[] = [' '.repeat(indent)];
  for (const [index, span] of row.columns.entries()) {
    const width = widths[index] ?? 0;
    if (width === 0) continue;
    const padding = ' '.repeat(width - displayWidth(visible(plainTextOf(span))));
    spans.push(...(row.align?.[index] === 'right' ? [padding, span] : [span, padding]), '  ');
  }
  return spans;
}

function stacked(style: TextStyle, row: TextRow, indent: number): string[] {
  const spans = row.columns
    .filter((span) => plainTextOf(span) !== '')
    .flatMap((span, index) => (index === 0 ? [span] : ['  ', span]));
  return flow(style, spans, indent + 4, [' '.repeat(indent)]);
}

export function plainTextOf(span: Span): string {
  return typeof span === 'string' ? span : span.text;
}
