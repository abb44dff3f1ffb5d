import { formatBytes, formatBytesDelta, formatCount, formatEstimate, plural } from '../../format.ts';
import { isReplaced } from '../../model/converted-column.ts';
import type { ConvertedColumn, DataSection, Report } from '../../model/report.ts';
import { convertedWords, isUnknownHere, lostWords } from '../phrases.ts';
import { tone } from '../text-layout.ts';
import {
  ARROW,
  AS_TEXT,
  type Cell,
  cellParts,
  type Item,
  named,
  ON_PAGES,
  type Phrase,
  phraseParts,
  type Section,
} from '../view/section.ts';

const LISTED = 10;
const LISTED_WRITTEN = 5;
type Table = DataSection['tables'][number];

/** Stored values that are gone or were changed: the losses of most values come first. */
export function lossView({ data }: Report): Section[] {
  const { lost = [], converted = [], overwritten = [], copied = [], copiedTables = [] } = data ?? {};
  const kept = copied.length + copiedTables.length;
  if (lost.length + converted.length + overwritten.length + kept === 0) return [];
  const sorted = lost.toSorted((one, other) => (other.rowsWithValue ?? 0) - (one.rowsWithValue ?? 0));
  const items = [
    ...sorted.map(lostItem),
    ...converted.map((column) => convertedItem(column, 'converts')),
    ...overwritten.map((column) => convertedItem(column, 'overwrites')),
  ];
  return [
    {
      id: 'lost',
      title: 'Lost data',
      summary: items.length === 0 ? 'none' : plural(items.length, 'object'),
      folds: items.length === 0 ? 'in-comment' : 'never',
      importance: 9,
      blocks: [
        { kind: 'items', items },
        {
          kind: 'items',
          items: copiedTables.map(({ relation, to }) => ({
            text: ['the table ', named(relation), ' is dropped, but ', named(to), ' has the same rows'],
          })),
        },
        {
          kind: 'items',
          items: copied.map((column) => ({
            text: ['dropped, but another column took the name and has the same values: ', named(column)],
          })),
        },
      ],
    },
  ];
}

function lostItem(lost: DataSection['lost'][number]): Item {
  const text = lostWords(lost);
  if (lost.rowsWithValue === 0) return { text };
  const isUncounted =
    isUnknownHere(lost) || (lost.what === 'narrowed' && (lost.rowsChanged ?? null) === null);
  return { mark: 'bad', tag: isUncounted ? 'may be lost' : 'lost', text };
}

function convertedItem(column: ConvertedColumn, verb: 'converts' | 'overwrites'): Item {
  const text = convertedWords(column, verb);
  if (isReplaced(column)) return { mark: 'bad', tag: 'changed', text };
  return column.changed === 0 ? { text } : { mark: 'bad', tag: 'may be changed', text };
}

/** Rows, sizes and storage of the tables before and after. */
export function dataView({ data, schema }: Report): Section[] {
  const section = { id: 'data', title: 'Data', folds: 'in-comment', importance: 5 } as const;
  if (data === null) return [{ ...section, summary: 'not compared', shownIn: AS_TEXT, blocks: [] }];
  const { tables, written } = data;
  const largest = Math.max(1, ...tables.map(largestSize));
  const changed = written
    .filter(({ updated, deleted }) => updated + deleted > 0)
    .toSorted((one, other) => other.updated + other.deleted - one.updated - one.deleted);
  const rows = tables
    .toSorted((one, other) => weight(other) - weight(one))
    .map((table) => tableRow(table, schema, largest));
  return [
    {
      ...section,
      summary: summaryOf(data),
      ...(tables.length + changed.length === 0 ? { shownIn: AS_TEXT } : {}),
      blocks: [
        {
          kind: 'table',
          listed: LISTED,
          columns: [
            { title: 'table' },
            { title: 'rows', align: 'right' },
            { title: 'size', align: 'right' },
            { title: '' },
          ],
          shownIn: ON_PAGES,
          rows,
        },
        {
          kind: 'table',
          listed: LISTED,
          columns: [
            { title: '' },
            { title: '', align: 'right' },
            { title: '', align: 'right' },
            { title: '' },
          ],
          shownIn: AS_TEXT,
          rows: rows.map(([table = '', count = '', ...others]) => [
            table,
            [...phraseParts(cellParts(count).text), ' rows'],
            ...others,
          ]),
        },
        // Inserted rows show in the row counts.
        {
          kind: 'items',
          listed: LISTED_WRITTEN,
          items: changed.map((each) => ({
            text: ['rows of ', named(each.relation), `: ${writtenWords(each)}`],
          })),
        },
      ],
    },
  ];
}

/** `66,667 updated, 3 deleted`. */
function writtenWords({ inserted, updated, deleted, atMost }: DataSection['written'][number]): string {
  const counts: [number, string][] = [
    [inserted, 'inserted'],
    [updated, 'updated'],
    [deleted, 'deleted'],
  ];
  return counts
    .filter(([count]) => count > 0)
    .map(([count, verb]) => `${atMost ? 'at most ' : ''}${formatCount(count)} ${verb}`)
    .join(', ');
}

function largestSize({ bytesBefore, bytesAfter }: Table): number {
  return Math.max(bytesBefore ?? 0, bytesAfter ?? 0);
}

/** Rewritten tables come first, then large ones: these take the most time. */
function weight(table: Table): number {
  return largestSize(table) + (table.rewritten ? 2 ** 52 : 0);
}

function summaryOf({ tables, unchangedTables, sizeDeltaBytes, walBytes }: DataSection): string {
  const size = sizeDeltaBytes === null ? 'not measured' : formatBytesDelta(sizeDeltaBytes);
  const wal = walBytes === null ? 'not measured' : formatBytes(walBytes);
  const changed = tables.length === 0 ? 'no table changed' : `${plural(tables.length, 'table')} changed`;
  return `${changed}, ${formatCount(unchangedTables)} unchanged; size ${size}; WAL ${wal}`;
}

function tableRow(table: Table, schema: Report['schema'], largest: number): Cell[] {
  const { relation, rowsBefore, rowsAfter, exact, bytesBefore, bytesAfter, rewritten } = table;
  const rows = (count: number | null) => (count === null ? null : formatEstimate(count, exact));
  const size = (bytes: number | null) => (bytes === null ? null : formatBytes(bytes));
  const verb = verbOf(table, schema);
  const lost = exact ? (rowsBefore ?? 0) - (rowsAfter ?? rowsBefore ?? 0) : 0;
  const notes = [
    ...(verb === 'create' ? ['NEW'] : verb === 'drop' ? ['DROPPED'] : []),
    ...(rewritten ? ['REWRITTEN'] : []),
    ...(lost > 0 ? [`LOST ${plural(lost, 'ROW', 'ROWS')}`] : []),
  ];
  return [
    [named(relation)],
    fromTo(rows(rowsBefore), rows(rowsAfter), verb),
    {
      text: fromTo(size(bytesBefore), size(bytesAfter), verb),
      bars: [
        ...(bytesBefore && bytesBefore !== bytesAfter
          ? [{ share: bytesBefore / largest, before: true }]
          : []),
        ...(bytesAfter ? [{ share: bytesAfter / largest }] : []),
      ],
    },
    [tone(notes.length === 1 && verb === 'create' ? 'plain' : 'warning', notes.join(', '))],
  ];
}

function verbOf(table: Table, schema: Report['schema']): 'create' | 'drop' | undefined {
  const made =
    schema?.changes.filter(({ object }) => object === table.relation).map(({ verb }) => verb) ?? [];
  const [isNew, isGone] = [made.includes('create'), made.includes('drop')];
  if (isNew !== isGone) return isNew ? 'create' : 'drop';
  if (!isNew) return undefined;
  // A table that was dropped and re-created has a row for each; which is which shows only if one of them has data.
  const difference = (table.bytesAfter ?? 0) - (table.bytesBefore ?? 0);
  if (difference === 0) return undefined;
  return difference > 0 ? 'create' : 'drop';
}

/** A created or dropped table has only one side; otherwise a missing side was not measured. */
function fromTo(before: string | null, after: string | null, verb: 'create' | 'drop' | undefined): Phrase {
  if (verb === 'create' && before === null) return after ?? '?';
  if (verb === 'drop' && after === null) return before ?? '?';
  return before === after ? (after ?? '?') : [`${before ?? '?'} `, ARROW, ` ${after ?? '?'}`];
}
