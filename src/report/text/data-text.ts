import { formatBytes, formatBytesDelta, formatCount, plural } from '../../format.ts';
import { isReplaced } from '../../model/converted-column.ts';
import type { DataSection, Report } from '../../model/report.ts';
import { convertedWords, lostWords, writtenWords } from '../phrases.ts';
import { layoutTable, marks, type TextRow, type TextStyle, tone } from '../text-layout.ts';
import { andMore, bullet, heading, messageText } from './parts-text.ts';

const LISTED = 10;
const LISTED_LOSSES = 8;
const LISTED_WRITTEN = 5;
type Table = DataSection['tables'][number];

export function dataText({ data, schema }: Report, style: TextStyle): string[] {
  if (data === null) return heading(style, 'Data', 'not compared');
  const sorted = data.tables.toSorted((one, other) => weight(other) - weight(one));
  const rows = sorted.slice(0, LISTED).map((each) => tableRow(each, schema, style));
  return [
    ...heading(style, 'Data', summary(data)),
    ...layoutTable(style, rows),
    ...andMore(style, sorted.length - LISTED),
    ...(style.verbose ? writtenLines(data, style) : []),
    ...lossLines(data, style),
  ];
}

/** Rows that were updated or deleted; inserted ones already show in the row counts. */
function writtenLines({ written }: DataSection, style: TextStyle): string[] {
  const changed = written
    .filter(({ updated, deleted }) => updated + deleted > 0)
    .toSorted((one, other) => other.updated + other.deleted - one.updated - one.deleted);
  return [
    ...changed
      .slice(0, LISTED_WRITTEN)
      .flatMap((each) =>
        bullet(style, ['rows of ', tone('strong', each.relation), `: ${writtenWords(each)}`], '~'),
      ),
    ...andMore(style, changed.length - LISTED_WRITTEN),
  ];
}

/** Losses of the most values come first. */
function lossLines({ lost, converted = [] }: DataSection, style: TextStyle): string[] {
  const sorted = lost.toSorted((one, other) => (other.rowsWithValue ?? 0) - (one.rowsWithValue ?? 0));
  return [
    ...sorted.slice(0, LISTED_LOSSES).flatMap((each) => {
      const words = messageText(style, lostWords(each));
      if (each.rowsWithValue === 0) return bullet(style, [words]);
      const uncounted = each.what === 'narrowed' && (each.rowsChanged ?? null) === null;
      return bullet(style, [tone('bad', uncounted ? 'MAY BE LOST' : 'LOST'), `: ${words}`], '!');
    }),
    ...andMore(style, sorted.length - LISTED_LOSSES),
    ...converted.slice(0, LISTED_LOSSES).flatMap((column) => {
      const words = messageText(style, convertedWords(column));
      if (isReplaced(column)) return bullet(style, [tone('bad', 'CHANGED'), `: ${words}`], '!');
      if (column.changed === 0) return bullet(style, [words]);
      return bullet(style, [tone('bad', 'MAY BE CHANGED'), `: ${words}`], '!');
    }),
    ...andMore(style, converted.length - LISTED_LOSSES),
  ];
}

/** Rewritten tables come first, then large ones: these take the most time. */
function weight(each: Table): number {
  const bytes = Math.max(each.bytesBefore ?? 0, each.bytesAfter ?? 0);
  return bytes + (each.rewritten ? 2 ** 52 : 0);
}

function summary(data: DataSection): string {
  const size = data.sizeDeltaBytes === null ? 'not measured' : formatBytesDelta(data.sizeDeltaBytes);
  const wal = data.walBytes === null ? 'not measured' : formatBytes(data.walBytes);
  const changed =
    data.tables.length === 0 ? 'no table changed' : `${plural(data.tables.length, 'table')} changed`;
  return `${changed}, ${formatCount(data.unchangedTables)} unchanged; size ${size}; WAL ${wal}`;
}

function tableRow(each: Table, schema: Report['schema'], style: TextStyle): TextRow {
  const about = each.exact ? '' : '~';
  const rows = (count: number | null) => (count === null ? null : `${about}${formatCount(count)}`);
  const size = (bytes: number | null) => (bytes === null ? null : formatBytes(bytes));
  const lost = each.exact ? (each.rowsBefore ?? 0) - (each.rowsAfter ?? each.rowsBefore ?? 0) : 0;
  const verb = verbOf(each, schema);
  const sides = { arrow: marks(style).arrow, verb };
  return {
    columns: [
      tone('strong', each.relation),
      `${fromTo({ ...sides, before: rows(each.rowsBefore), after: rows(each.rowsAfter) })} rows`,
      fromTo({ ...sides, before: size(each.bytesBefore), after: size(each.bytesAfter) }),
      verb === 'create' ? 'NEW' : verb === 'drop' ? tone('warning', 'DROPPED') : '',
      each.rewritten ? tone('warning', 'REWRITTEN') : '',
      lost > 0 ? tone('warning', `LOST ${plural(lost, 'ROW', 'ROWS')}`) : '',
    ],
    align: ['left', 'right', 'right'],
  };
}

function verbOf(each: Table, schema: Report['schema']): 'create' | 'drop' | undefined {
  const made = schema?.changes.filter(({ object }) => object === each.relation).map(({ verb }) => verb) ?? [];
  const [isNew, isGone] = [made.includes('create'), made.includes('drop')];
  if (isNew !== isGone) return isNew ? 'create' : 'drop';
  if (!isNew) return undefined;
  // A table that was dropped and re-created has a row for each; which is which shows only if one of them has data.
  const difference = (each.bytesAfter ?? 0) - (each.bytesBefore ?? 0);
  if (difference === 0) return undefined;
  return difference > 0 ? 'create' : 'drop';
}

interface Sides {
  readonly before: string | null;
  readonly after: string | null;
  readonly arrow: string;
  readonly verb: string | undefined;
}

/** A created or dropped table has only one side; otherwise a missing side was not measured. */
function fromTo({ before, after, arrow, verb }: Sides): string {
  if (verb === 'create' && before === null) return after ?? '?';
  if (verb === 'drop' && after === null) return before ?? '?';
  return before === after ? (after ?? '?') : `${before ?? '?'} ${arrow} ${after ?? '?'}`;
}
