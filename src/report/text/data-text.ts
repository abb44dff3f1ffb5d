import { formatBytes, formatBytesDelta, formatCount, plural } from '../../format.ts';
import type { DataSection, Report } from '../../model/report.ts';
import { lostWords, writtenWords } from '../phrases.ts';
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
    ...writtenLines(data, style),
    ...lossLines(data, style),
  ];
}

/** What came in is told by the number of rows; what was changed or went, by nothing else. */
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

/** The most values first. */
function lossLines({ lost }: DataSection, style: TextStyle): string[] {
  const sorted = lost.toSorted((one, other) => (other.rowsWithValue ?? 0) - (one.rowsWithValue ?? 0));
  return [
    ...sorted.slice(0, LISTED_LOSSES).flatMap((each) => {
      const words = messageText(style, lostWords(each));
      if (each.rowsWithValue === 0) return bullet(style, [words]);
      const uncounted = each.what === 'narrowed' && (each.rowsChanged ?? null) === null;
      return bullet(style, [tone('bad', uncounted ? 'PERHAPS LOST' : 'LOST'), `: ${words}`], '!');
    }),
    ...andMore(style, sorted.length - LISTED_LOSSES),
  ];
}

/** Rewritten tables first, then by size: these are the ones that take time. */
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
  // Made anew under its name it has a row for each; of two empty ones it cannot be told which is which.
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

/** A table that was made or dropped has one side only; elsewhere a side that is missing was not measured. */
function fromTo({ before, after, arrow, verb }: Sides): string {
  if (verb === 'create' && before === null) return after ?? '?';
  if (verb === 'drop' && after === null) return before ?? '?';
  return before === after ? (after ?? '?') : `${before ?? '?'} ${arrow} ${after ?? '?'}`;
}
