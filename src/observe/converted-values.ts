import { formatCount } from '../format.ts';
import type { ConvertedColumn, SchemaSection } from '../model/report.ts';
import type { Session } from '../postgres/connection/session.ts';
import { ifAnswered } from '../postgres/session-helpers.ts';
import { displayName, nameParts } from '../postgres/sql/quote.ts';
import { isText, readAlike, shorterLength } from '../schema/type-changes.ts';
import { isSmallTable } from './column-contents.ts';
import type { ConvertedTable } from './lost-data.ts';
import {
  allOf,
  type ComparedRow,
  type ComparedTable,
  type ReadColumn,
  readTables,
  rowsByKey,
  sampleOf,
} from './row-values.ts';

const PAGE_BYTES = 8192;
const BUDGET_MS = 3000;

/** Both sides have to write the same value as the same text. */
export const SAME_TEXT = `SELECT set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO', false),
  set_config('IntervalStyle', 'postgres', false), set_config('bytea_output', 'hex', false), set_config('extra_float_digits', '1', false)`;

/** A column before the command and after it. */
interface Column {
  readonly before: string;
  readonly after: string;
  readonly from: string;
  readonly to: string;
}

/**
 * Compares the values of converted columns on the target, which has them as they were, with those on the clone: all rows of small tables,
 * and of others those of some pages, found on the clone by primary key. Without one, the two sides are only counted.
 * @param touched gets what was read on the target. `since`: the id of the target's next transaction before the clone was made.
 */
export async function compareConverted(
  target: Session,
  clone: Session,
  tables: readonly ConvertedTable[],
  schema: SchemaSection | null,
  { touched, since }: { readonly touched: string[]; readonly since: number | undefined },
): Promise<ConvertedColumn[]> {
  const deadline = performance.now() + BUDGET_MS;
  const formerly = (kind: string, object: string) =>
    schema?.renames.find((each) => each.kind === kind && each.to === object)?.from ?? object;
  for (const session of [target, clone]) await session.query(SAME_TEXT);
  const now = await readTables(
    clone,
    tables.map(({ relation }) => relation),
  );
  const wanted = new Map<
    string,
    { readonly after: ComparedTable; readonly columns: Set<string> | null; readonly updated: number }
  >();
  for (const table of now) {
    const { columns = null, updated = 0 } = tables.find(({ relation }) => relation === table.relation) ?? {};
    const name = displayName(table.schema, table.name);
    const known = wanted.get(name);
    const all = columns === null || known?.columns === null;
    wanted.set(name, {
      after: table,
      columns: all ? null : new Set([...columns, ...(known?.columns ?? [])]),
      updated: updated + (known?.updated ?? 0),
    });
  }
  const found: ConvertedColumn[] = [];
  for (const [name, { after, columns, updated }] of wanted) {
    const formerName = formerly('table', name);
    const [before] = await readTables(target, [formerName]);
    if (!before) continue;
    const named = Object.entries(after.types ?? {}).flatMap(([column, to]): Column[] => {
      const former =
        nameParts(formerly('column', displayName(after.schema, after.name, column))).at(-1) ?? '';
      const from = before.types?.[former];
      const isWanted =
        columns?.has(column) || columns?.has(former) || (columns === null && !isKey(before, former));
      return from === undefined || !isWanted ? [] : [{ before: former, after: column, from, to }];
    });
    if (named.length === 0) continue;
    const compared =
      before.readable && performance.now() < deadline
        ? await compareTable({ target, clone, before, after, columns: named, since, converted: true })
        : undefined;
    if (compared)
      touched.push(
        `compared ${formatCount(compared[0]?.compared ?? 0)} rows of ${formerName} with the clone's`,
      );
    if (!compared) found.push(...uncompared(formerName, columns));
    else found.push(...compared.filter((column) => columns !== null || !isExplained(column, updated)));
  }
  return found;
}

/** Entries for columns that could not be compared, or one for all columns of the table. */
export function uncompared(relation: string, columns: ConvertedTable['columns']): ConvertedColumn[] {
  const nothing = {
    rows: null,
    compared: 0,
    values: 0,
    becameNull: 0,
    changed: null,
    distinctBefore: 0,
    distinctAfter: 0,
  };
  const names = columns === null ? ['*'] : [...columns].map((column) => displayName(column));
  return names.map((column) => ({ object: `${relation}.${column}`, ...nothing, exact: false }));
}

function isKey({ key }: ComparedTable, column: string): boolean {
  return key.includes(column);
}

/** In a table that code rewrote for whatever reason: no compared value is another one, or no more than were updated. */
function isExplained({ rows, compared, becameNull, changed }: ConvertedColumn, updated: number): boolean {
  return ((becameNull + (changed ?? 0)) * (rows ?? compared)) / Math.max(1, compared) <= updated;
}

/** Tells if all rows were compared, and no value is lost or another one. */
export function isAsBefore({
  exact,
  becameNull,
  changed,
  distinctBefore,
  distinctAfter,
}: ConvertedColumn): boolean {
  return exact && becameNull === 0 && changed === 0 && distinctAfter >= distinctBefore;
}

interface Comparison {
  /** By a change of type: parts of the values are compared as well. */
  readonly converted: boolean;
  readonly target: Session;
  readonly clone: Session;
  readonly before: ComparedTable;
  readonly after: ComparedTable;
  readonly columns: readonly Column[];
  readonly since: number | undefined;
}

/** A small table may have large values: if all of them take too long, a sample is compared. */
async function compareTable(comparison: Comparison): Promise<ConvertedColumn[] | undefined> {
  const { rows, pages } = comparison.before;
  const all = isSmallTable(rows, pages * PAGE_BYTES)
    ? await ifAnswered(() => compareColumns(comparison, true))
    : undefined;
  return all ?? (await ifAnswered(() => compareColumns(comparison, false)));
}

/** @param all false: a sample. */
export async function compareColumns(
  { target, clone, before, after, columns, since, converted }: Comparison,
  all: boolean,
): Promise<ConvertedColumn[]> {
  const isKeyed =
    before.key.length > 0 &&
    before.key.every(
      (column) => after.key.includes(column) && !columns.some((each) => each.before === column),
    );
  const key = isKeyed ? before.key : [];
  const whole = columns.map(({ before: name, from: type }) => ({ name, type }));
  const parts = converted ? columns.flatMap(partsOf) : [];
  const former = { table: before, key, columns: [...whole, ...parts], before: since };
  const current = {
    table: after,
    key,
    columns: columns.map((column) => ({ name: column.after, type: column.to })),
  };
  const then = await target.query<ComparedRow & object>(all ? allOf(former) : sampleOf(former));
  const sameKeys = all || !isKeyed ? [] : await rowsByKey(clone, current, then);
  // Without one of the keys all of them were replaced.
  const found =
    sameKeys.length > 0
      ? sameKeys
      : await clone.query<ComparedRow & object>(all ? allOf(current) : sampleOf(current));
  const byKey = new Map(found.map((row) => [JSON.stringify(row.key), row]));
  const matched = then.flatMap((row) => {
    const own = byKey.get(JSON.stringify(row.key));
    return own ? [[row.values, own.values] as const] : [];
  });
  const pairs = isKeyed && matched.length > 0 ? matched : null;
  return columns.map((column, at) => {
    const partAt = (kind: Part['kind']) => {
      const place = parts.findIndex((part) => part.kind === kind && part.name === column.before);
      return place < 0 ? null : whole.length + place;
    };
    const figures = pairs
      ? pairedFigures(
          pairs.map(([one, other]) => [one[at] ?? null, other[at] ?? null] as const),
          column,
        )
      : countedFigures(
          then.map(({ values }) => values[at] ?? null),
          found.map(({ values }) => values[at] ?? null),
          column,
        );
    return {
      object: displayName(before.schema, before.name, column.before),
      rows: all ? then.length : before.rows === null ? null : Math.round(before.rows),
      ...figures,
      ...(pairs && converted
        ? partFigures(pairs, at, { beginning: partAt('beginning'), spelling: partAt('spelling') })
        : {}),
      exact: all,
    };
  });
}

/** A part of the values of a column before the command, which is read beside the whole. */
interface Part extends ReadColumn {
  readonly kind: 'beginning' | 'spelling';
}

function partsOf({ before: name, from: type, to }: Column): Part[] {
  if (!isText(type)) return [];
  const length = shorterLength(type, to);
  return [
    { kind: 'spelling', name, type, part: (value) => `lower(translate(${value}, E' \\t\\r\\n_-', ''))` },
    ...(length === null
      ? []
      : [{ kind: 'beginning' as const, name, type, part: (value: string) => `left(${value}, ${length})` }]),
  ];
}

type Values = readonly (string | null)[];

/** The values that were cut to their beginning, and the different ones but for their spelling. @param at places of the values. */
function partFigures(
  pairs: readonly (readonly [before: Values, after: Values])[],
  at: number,
  { beginning, spelling }: { readonly beginning: number | null; readonly spelling: number | null },
): Pick<ConvertedColumn, 'cut' | 'spellings'> {
  const kept = pairs.filter(([before, after]) => before[at] != null && after[at] != null);
  const cut =
    beginning === null
      ? 0
      : kept.filter(([before, after]) => before[at] !== after[at] && before[beginning] === after[at]).length;
  const different = (of: (pair: (typeof kept)[number]) => unknown) => new Set(kept.map(of)).size;
  const isMerged = different(([, after]) => after[at]) < different(([before]) => before[at]);
  return {
    ...(cut > 0 ? { cut } : {}),
    ...(isMerged ? { spellings: different(([before]) => before[spelling ?? at]) } : {}),
  };
}

type Figures = Omit<ConvertedColumn, 'object' | 'rows' | 'exact'>;

function pairedFigures(
  pairs: readonly (readonly [before: string | null, after: string | null])[],
  { from, to }: Column,
): Figures {
  const given = pairs.filter(([before]) => before !== null);
  const kept = given.filter(([, after]) => after !== null);
  return {
    compared: pairs.length,
    values: given.length,
    becameNull: given.length - kept.length,
    changed: readAlike(from, to) ? kept.filter(([before, after]) => before !== after).length : null,
    distinctBefore: new Set(given.map(([before]) => before)).size,
    distinctAfter: new Set(kept.map(([, after]) => after)).size,
  };
}

/** Counts the values of a table without a primary key, and the different ones. */
function countedFigures(
  then: readonly (string | null)[],
  now: readonly (string | null)[],
  { from, to }: Column,
): Figures {
  const [before, after] = [then, now].map((values) => values.filter((value) => value !== null).sort());
  const [given, kept] = [before ?? [], after ?? []];
  const isSame = given.length === kept.length && given.every((value, at) => value === kept[at]);
  // A sample of either side has about as many rows as the other, but not the same ones.
  const lost = then.length === 0 ? 0 : given.length - (kept.length * then.length) / Math.max(1, now.length);
  return {
    compared: then.length,
    values: given.length,
    becameNull: kept.length === 0 ? given.length : Math.max(0, Math.round(lost)),
    changed: readAlike(from, to) && isSame ? 0 : null,
    distinctBefore: new Set(given).size,
    distinctAfter: new Set(kept).size,
  };
}
