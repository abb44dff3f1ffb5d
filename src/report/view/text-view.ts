import { formatCount } from '../../format.ts';
import {
  cutLine,
  flow,
  layoutTable,
  marks,
  plainTextOf,
  type Span,
  type TextStyle,
  tone,
} from '../text-layout.ts';
import { oneLine, visible } from '../visible.ts';
import { cutToWidth, displayWidth } from '../width.ts';
import {
  type Block,
  cellParts,
  type Item,
  type ItemMark,
  type Note,
  type Phrase,
  type PhrasePart,
  phraseParts,
  type Section,
  sectionsFor,
  type Table,
} from './section.ts';

const LISTED = 8;
const LISTED_SQL = 20;
const SQL_COLUMNS = 160;
/** Longer messages are cut; the JSON report has them in full. */
const MESSAGE_COLUMNS = 600;
/** Part of a line that may stand before the last column of a table, which is wrapped within itself. */
const MOST_BEFORE = 0.7;

/** Sections as lines for a terminal, each section by itself. */
export function viewText(sections: readonly Section[], style: TextStyle): string[][] {
  return sectionsFor('text', sections).map((section) => sectionLines(section, style));
}

function sectionLines(section: Section, style: TextStyle): string[] {
  return [
    ...titleLines(section, style),
    ...section.blocks.flatMap((block) => blockLines(block, style)),
    ...(section.parts ?? []).flatMap((part) => sectionLines(part, style)),
  ];
}

/** Signs before an outcome; the others are clear from their words. */
function titleLines({ title, summary, outcome, aside }: Section, style: TextStyle): string[] {
  if (title === '') return [];
  const spans = summary === undefined ? [] : spansOf(summary, style);
  if (outcome === undefined) {
    const beside = spans.length === 0 ? [] : ['  ', ...spans];
    return flow(style, [tone('strong', title.toUpperCase()), ...beside], 2, ['']);
  }
  const { pass, fail } = marks(style);
  const words = title.toUpperCase();
  const sign = outcome === 'good' ? `${pass} ` : outcome === 'bad' ? `${fail} ` : '';
  const full = outcome === 'alarm' ? `!!! ${words} !!!` : `${sign}${words}`;
  const beside = spans.map((span) => (typeof span === 'string' ? tone('strong', span) : span));
  const line = [tone(outcome, full), ...(beside.length === 0 ? [] : [': ', ...beside])];
  if (aside === undefined) return flow(style, line, 2, ['']);
  const end = spansOf(aside, style);
  const gap = style.columns - widthOf(line) - widthOf(end);
  return gap >= 2
    ? flow(style, [...line, ' '.repeat(gap), ...end], 2, [''])
    : [...flow(style, line, 2, ['']), cutLine(style, ['  ', ...end])];
}

function blockLines(block: Block, style: TextStyle): string[] {
  switch (block.kind) {
    case 'items': {
      const { items, listed = LISTED, more = '' } = block;
      return [
        ...items.slice(0, listed).flatMap((item) => itemLines(item, style)),
        ...andMore(style, items.length - listed, more === '' ? '' : ` ${more}`),
      ];
    }
    case 'facts':
      return block.facts.flatMap(([label, value]) => fact(style, label, spansOf(value, style)));
    case 'table':
      return tableLines(block, style);
    case 'script': {
      const lines = block.sql.trimEnd().split('\n');
      const { listed = lines.length } = block;
      return [
        ...lines.slice(0, listed).flatMap((line) => flow(style, [messageText(style, line)], 4, ['    '])),
        ...andMore(style, lines.length - listed, ' lines'),
      ];
    }
    case 'diff':
      return block.lines.flatMap((line) => flow(style, [messageText(style, line)], 4, ['    ']));
    case 'paragraph':
      return flow(style, spansOf(block.text, style), 4, ['  ']);
    case 'drawing':
      return [];
  }
}

function itemLines(item: Item, style: TextStyle, indent = 2): string[] {
  const { mark, tag, text, notes = [], items = [], cut } = item;
  const blanks = ' '.repeat(indent);
  const sign = mark === undefined ? '-' : signOf(mark, style);
  const label = tag === undefined ? sign : `${sign} ${tag.toUpperCase()}`;
  const line = [mark === undefined ? label : tone(TONES[mark], label), ' ', ...spansOf(text, style)];
  return [
    ...(cut
      ? [cutLine(style, [blanks, ...line])]
      : flow(style, line, indent + (tag === undefined ? 2 : 4), [blanks])),
    ...items.slice(0, LISTED).flatMap((each) => itemLines(each, style, indent + 4)),
    ...andMore(style, items.length - LISTED),
    ...notes.flatMap((note) => noteLines(note, style, indent + 4)),
  ];
}

const TONES = { good: 'good', warning: 'warning', bad: 'bad', notice: 'strong' } as const;

function signOf(mark: ItemMark, style: TextStyle): string {
  const { pass, fail, warning, notice } = marks(style);
  return { good: pass, bad: fail, warning, notice }[mark];
}

function noteLines({ label, text, sql = [], cut }: Note, style: TextStyle, indent: number): string[] {
  const blanks = ' '.repeat(indent);
  const lead = label === undefined ? [blanks] : [blanks, tone('dim', `${label}: `)];
  if (cut) return [cutLine(style, [...lead, ...spansOf(text, style)])];
  return [
    ...flow(style, spansOf(text, style), indent + (label === undefined ? 0 : 2), lead),
    ...sql
      .slice(0, LISTED_SQL)
      .flatMap((statement) =>
        flow(style, [messageText(style, statement)], indent + 6, [' '.repeat(indent + 2)]),
      ),
    ...andMore(style, sql.length - LISTED_SQL, ' statements'),
  ];
}

/** Aligns the columns; the last one is wrapped within itself if it is too wide. */
function tableLines({ columns, rows, listed = LISTED, more = '' }: Table, style: TextStyle): string[] {
  const shown = rows
    .slice(0, listed)
    .map((cells) => cells.map((cell) => spansOf(cellParts(cell).text, style)));
  const titles = columns.map(({ title }) => [tone('dim', title)]);
  const hasTitles = columns.some(({ title }) => title !== '');
  const all = hasTitles ? [titles, ...shown] : shown;
  const widths = columns.map((_, at) => Math.max(0, ...all.map((cells) => widthOf(cells[at] ?? []))));
  const before = widths.slice(0, -1).reduce((sum, width) => sum + (width === 0 ? 0 : width + 2), 2);
  const lines =
    before > style.columns * MOST_BEFORE && before + (widths.at(-1) ?? 0) > style.columns
      ? layoutTable(
          style,
          all.map((cells) => ({ columns: cells.map(joined) })),
        )
      : all.flatMap((cells) => {
          const lead = cells.slice(0, -1).flatMap((cell, at) => padded(cell, widths[at] ?? 0, columns[at]));
          const last = columns.length - 1;
          const own = cells[last] ?? [];
          const text = columns[last]?.align === 'right' ? padded(own, widths[last] ?? 0, columns[last]) : own;
          return flow(style, text, before, ['  ', ...lead]);
        });
  return [...lines, ...andMore(style, rows.length - listed, more === '' ? '' : ` ${more}`)];
}

function padded(spans: Span[], width: number, column: Table['columns'][number] | undefined): Span[] {
  if (width === 0) return [];
  const blanks = ' '.repeat(Math.max(0, width - widthOf(spans)));
  return column?.align === 'right' ? [blanks, ...spans, '  '] : [...spans, blanks, '  '];
}

function widthOf(spans: Span[]): number {
  return spans.reduce((sum, span) => sum + displayWidth(visible(plainTextOf(span))), 0);
}

/** A cell in a table that is too wide for the terminal. */
function joined(spans: Span[]): Span {
  const [only] = spans;
  return spans.length === 1 && only !== undefined ? only : spans.map(plainTextOf).join('');
}

function spansOf(phrase: Phrase, style: TextStyle): Span[] {
  return phraseParts(phrase).map((part) => spanOf(part, style));
}

function spanOf(part: PhrasePart, style: TextStyle): Span {
  const shown = (text: string, columns = MESSAGE_COLUMNS) =>
    cutToWidth(text.replace(/\s+/gu, ' '), columns, marks(style).more);
  if (typeof part === 'string') return shown(part);
  if ('mark' in part) return marks(style).arrow;
  if ('statement' in part) return part.at ?? `statement ${formatCount(part.statement)}`;
  if ('tone' in part) return tone(part.tone, shown(part.text));
  // A line end in a name is shown as such.
  if (part.as === 'name') return tone('strong', cutToWidth(part.code, MESSAGE_COLUMNS, marks(style).more));
  return shown(part.code.trim(), SQL_COLUMNS);
}

/** `  Label    text, wrapped below itself`. */
function fact(style: TextStyle, label: string, spans: Span[]): string[] {
  return flow(style, spans, 11, [tone('dim', `  ${label.padEnd(8)} `)]);
}

/** Puts a message from outside on one line and cuts it. */
function messageText(style: TextStyle, text: string): string {
  return cutToWidth(oneLine(text), MESSAGE_COLUMNS, marks(style).more);
}

/** The last line of a list that was cut; nothing if the list is complete. */
function andMore(style: TextStyle, missing: number, of = ''): string[] {
  if (missing <= 0) return [];
  const words = `${marks(style).more} and ${formatCount(missing)} more${of}, see the JSON report`;
  return flow(style, [tone('dim', words)], 4, ['  ']);
}
