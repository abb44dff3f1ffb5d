import { formatDuration } from '../format.ts';
import { IS_TABLE, USER_SCHEMA } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { ifAnswered } from '../postgres/session-helpers.ts';
import { displayName, identifier, nameParts } from '../postgres/sql/quote.ts';
import type { ThereAndBack } from '../schema/type-changes.ts';
import type { ColumnContent } from './lost-data.ts';
import { namedParts, pagesOf, readTables } from './row-values.ts';

/** The target must not feel it: of larger tables a sample is compared. */
const SMALL_ROWS = 100_000;
/** Larger tables are estimated from the statistics of their columns; a second is mostly enough to count others, and the limit for it. */
const SMALL_BYTES = 100 * 1024 * 1024;
/** Limit for tables that were never analysed, so that their number of rows is not known. */
const SMALL_UNKNOWN_BYTES = 8 * 1024 * 1024;
const COUNT_BUDGET_MS = 3000;

// Statistics of a partitioned table's columns are marked as inherited; rows and pages are those of its partitions.
const CONTENT = `
SELECT w.object, n.nspname AS schema, c.relname AS name, a.attname AS "column",
  CASE WHEN leaves.tuples >= 0 THEN leaves.tuples END AS rows, leaves.bytes, s.null_frac AS "nullShare",
  has_schema_privilege(n.oid, 'USAGE') AND has_column_privilege(c.oid, a.attnum, 'SELECT')
    AND NOT (c.relrowsecurity AND row_security_active(c.oid)) AS readable
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS w(object, schema, name, "column")
  JOIN pg_namespace n ON n.nspname = w.schema
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = w."column" AND a.attnum > 0 AND NOT a.attisdropped
 CROSS JOIN LATERAL (
   SELECT CASE WHEN min(l.reltuples) < 0 THEN -1 ELSE sum(l.reltuples) END::float8 AS tuples,
          sum(pg_relation_size(l.oid))::float8 AS bytes
     FROM (SELECT t.relid FROM pg_partition_tree(c.oid) t WHERE t.isleaf AND c.relkind = 'p'
           UNION ALL SELECT c.oid WHERE c.relkind <> 'p') leaf
     JOIN pg_class l ON l.oid = leaf.relid) leaves
  LEFT JOIN LATERAL (
   SELECT x.null_frac FROM pg_stats x
    WHERE x.schemaname = n.nspname AND x.tablename = c.relname AND x.attname = a.attname
    ORDER BY x.inherited = (c.relkind = 'p') DESC LIMIT 1) s ON true`;

interface ContentRow {
  object: string;
  schema: string;
  name: string;
  column: string;
  rows: number | null;
  bytes: number | null;
  nullShare: number | null;
  readable: boolean;
}

/**
 * Reads what columns hold: counted in small tables, else estimated from their statistics; narrowed ones from the values of some pages.
 * @param touched gets what was counted.
 */
export async function contentOf(
  session: Session,
  objects: readonly string[],
  casts: ReadonlyMap<string, ThereAndBack>,
  touched: string[],
): Promise<Map<string, ColumnContent>> {
  if (objects.length === 0) return new Map();
  const rows = await session.query<ContentRow>(CONTENT, namedParts(objects));
  const deadline = performance.now() + COUNT_BUDGET_MS;
  const contents = new Map<string, ColumnContent>();
  for (const row of rows) {
    if (contents.has(row.object)) continue;
    const ofTable = rows.filter(({ schema, name }) => schema === row.schema && name === row.name);
    const isSmall = ofTable.every(
      ({ bytes, readable }) => readable && bytes !== null && bytes <= SMALL_BYTES,
    );
    const mayCount = isSmall && performance.now() < deadline;
    const counted = mayCount ? await count(session, ofTable, casts, touched) : undefined;
    const mayRead = counted === undefined && row.readable && performance.now() < deadline;
    const narrowed = ofTable.filter(({ object }) => casts.has(object));
    const sampled = mayRead && narrowed.length > 0 ? await sample(session, narrowed, casts, touched) : [];
    for (const [index, column] of ofTable.entries()) {
      const ofSample = sampled[narrowed.indexOf(column)];
      contents.set(column.object, counted?.[index] ?? { ...estimated(column), ...ofSample });
    }
  }
  return contents;
}

/** @param rows null if the table was never analysed. */
export function isSmallTable(rows: number | null, bytes: number): boolean {
  return rows === null ? bytes <= SMALL_UNKNOWN_BYTES : rows <= SMALL_ROWS && bytes <= SMALL_BYTES;
}

function estimated({ rows, nullShare }: ContentRow): ColumnContent {
  return {
    rows: rows === null ? null : Math.round(rows),
    rowsWithValue: rows === null || nullShare === null ? null : Math.round(rows * (1 - nullShare)),
    rowsChanged: null,
    exact: false,
  };
}

/** Casts the values of some pages to the new types and back. @returns nothing if it took too long, or the table was locked. */
async function sample(
  session: Session,
  columns: readonly ContentRow[],
  casts: ReadonlyMap<string, ThereAndBack>,
  touched: string[],
): Promise<Pick<ColumnContent, 'rowsCompared' | 'rowsChanged'>[]> {
  const names = columns.map(({ column }) => identifier(column));
  const changed = columns.map(({ column, object }) => changedValues(identifier(column), casts.get(object)));
  const found = await ifAnswered(async () => {
    const [first] = columns;
    const [table] = first ? await readTables(session, [displayName(first.schema, first.name)]) : [];
    const pages = table && pagesOf(table, names.join(', '));
    if (!table || !pages) return [];
    touched.push(`read some pages of ${displayName(table.schema, table.name)}`);
    return session.query<{ values: number[]; changed: number[] }>(
      `SELECT ARRAY[${names.map((name) => `count(${name})`).join(', ')}]::float8[] AS values,
              ARRAY[${changed.join(', ')}]::float8[] AS changed FROM (${pages}) t`,
    );
  });
  const { values = [], changed: others = [] } = found?.[0] ?? {};
  return columns.flatMap(({ rows, nullShare }, index) => {
    const compared = values[index];
    if (!compared) return [];
    const ofAll = rows === null ? null : (rows * (1 - (nullShare ?? 0)) * (others[index] ?? 0)) / compared;
    // No value among those compared says little about the others.
    return [{ rowsCompared: compared, rowsChanged: ofAll ? Math.max(1, Math.round(ofAll)) : null }];
  });
}

function changedValues(name: string, cast: ThereAndBack | undefined): string {
  return cast === undefined ? 'NULL' : `count(*) FILTER (WHERE ${name} IS DISTINCT FROM ${cast(name)})`;
}

/** Counts the values of columns of one table. @returns undefined if it took too long, or the table was locked. */
async function count(
  session: Session,
  columns: readonly ContentRow[],
  casts: ReadonlyMap<string, ThereAndBack>,
  touched: string[],
): Promise<ColumnContent[] | undefined> {
  const [table] = columns;
  if (!table) return [];
  const started = performance.now();
  const counts = columns.map(({ column }) => `count(${identifier(column)})::float8`).join(', ');
  const changed = columns.map(({ object, column }) => changedValues(identifier(column), casts.get(object)));
  const found = await ifAnswered(() =>
    session.query<{ rows: number; values: number[]; changed: (number | null)[] }>(
      `SELECT count(*)::float8 AS rows, ARRAY[${counts}] AS values, ARRAY[${changed.join(', ')}]::float8[] AS changed
         FROM ${identifier(table.schema)}.${identifier(table.name)}`,
    ),
  ).finally(() => {
    const took = formatDuration(performance.now() - started);
    touched.push(`counted the rows of ${displayName(table.schema, table.name)} in ${took}`);
  });
  const [counted] = found ?? [];
  return counted?.values.map((rowsWithValue, index) => ({
    rows: counted.rows,
    rowsWithValue,
    rowsChanged: counted.changed[index] ?? null,
    exact: true,
  }));
}

/** A column that exists again under the name of a dropped one, in a table with a primary key that the column is no part of. */
interface Again {
  readonly object: string;
  readonly schema: string;
  readonly table: string;
  readonly column: string;
  readonly key: readonly string[];
}

interface DigestedTable {
  readonly schema: string;
  readonly table: string;
  readonly columns: readonly string[];
}

const AGAIN = `
SELECT w.object, n.nspname AS schema, c.relname AS table, a.attname AS column, k.columns AS key
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS w(object, schema, name, "column")
  JOIN pg_namespace n ON n.nspname = w.schema
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND ${IS_TABLE}
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = w."column" AND a.attnum > 0 AND NOT a.attisdropped
 CROSS JOIN LATERAL (
   SELECT array_agg(b.attname::text ORDER BY b.attnum) AS columns
     FROM pg_index i JOIN pg_attribute b ON b.attrelid = i.indrelid AND b.attnum = ANY (i.indkey)
    WHERE i.indrelid = c.oid AND i.indisprimary) k
 WHERE k.columns IS NOT NULL AND a.attname::text <> ALL (k.columns)`;

/**
 * Finds dropped columns whose name another column has now, with the same value as text in each row, by primary key.
 * @param target has the dropped columns still.
 * @param objects dropped columns of small tables: `public.orders.total`. Each table is read once on either side.
 * @returns those of them; a column that could not be compared is none.
 */
export async function copiedColumns(
  target: Session,
  clone: Session,
  objects: readonly string[],
): Promise<string[]> {
  const again = await clone.query<Again & object>(AGAIN, namedParts(objects));
  const copied: string[] = [];
  for (const column of again) {
    const digested = { ...column, columns: [...column.key, column.column] };
    const [then, now] = [await digestOf(target, digested), await digestOf(clone, digested)];
    if (then !== null && then === now) copied.push(displayName(column.schema, column.table, column.column));
  }
  return copied;
}

const COLUMNS = `
SELECT w.object, json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod)) ORDER BY a.attnum) AS columns,
  sum(pg_relation_size(c.oid)) / count(*) AS bytes
  FROM unnest($1::text[], $2::text[], $3::text[]) AS w(object, schema, name)
  JOIN pg_namespace n ON n.nspname = w.schema
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind = 'r' AND c.reltuples <= $4
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 GROUP BY w.object HAVING sum(pg_relation_size(c.oid)) / count(*) <= $5`;

/** Tables with all of the columns, and perhaps more. */
const ALIKE = `
SELECT format('%I.%I', n.nspname, c.relname) AS name, n.nspname AS schema, c.relname AS table
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r' AND ${USER_SCHEMA} AND NOT EXISTS (
   SELECT FROM json_to_recordset($1::json) AS w(name text, type text)
    WHERE NOT EXISTS (SELECT FROM pg_attribute a
      WHERE a.attrelid = c.oid AND a.attname = w.name AND NOT a.attisdropped AND format_type(a.atttypid, a.atttypmod) = w.type))
 ORDER BY c.oid DESC LIMIT 5`;

/**
 * Finds dropped tables whose rows another table has, which stays: as many, with the same values in the columns of the dropped one.
 * @param target has the dropped tables still. @param tables dropped tables; only small ones are compared.
 */
export async function copiedTables(
  target: Session,
  clone: Session,
  tables: readonly string[],
): Promise<{ relation: string; to: string }[]> {
  const known = await target.query<{ object: string; columns: { name: string; type: string }[] }>(COLUMNS, [
    ...namedParts(tables).slice(0, 3),
    SMALL_ROWS,
    SMALL_BYTES,
  ]);
  const copied: { relation: string; to: string }[] = [];
  for (const { object, columns } of known) {
    const [schema = '', table = ''] = nameParts(object);
    const names = columns.map(({ name }) => name);
    const alike = await clone.query<{ schema: string; table: string }>(ALIKE, [JSON.stringify(columns)]);
    const then = alike.length === 0 ? null : await digestOf(target, { schema, table, columns: names });
    for (const other of then === null ? [] : alike) {
      if ((await digestOf(clone, { ...other, columns: names })) !== then) continue;
      copied.push({ relation: object, to: displayName(other.schema, other.table) });
      break;
    }
  }
  return copied;
}

/** Folds the rows in any order; null if it took too long, or the table was locked or has another key. */
async function digestOf(session: Session, { schema, table, columns }: DigestedTable): Promise<string | null> {
  const row = columns.map((name) => `quote_nullable(${identifier(name)}::text)`).join(', ');
  const found = await ifAnswered(() =>
    session.query<{ digest: string }>(
      `SELECT count(*) || ' ' || coalesce(sum(hashtextextended(concat_ws(',', ${row}), 0)), 0) AS digest
         FROM ${identifier(schema)}.${identifier(table)}`,
    ),
  );
  return found?.[0]?.digest ?? null;
}
