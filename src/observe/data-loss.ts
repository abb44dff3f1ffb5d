import type { Target } from '../database/target.ts';
import { messageOf, sqlstateOf } from '../errors.ts';
import { formatDuration } from '../format.ts';
import type { Caveat, DataSection, SchemaSection } from '../model/report.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName, identifier } from '../postgres/sql/quote.ts';
import { type Retyped, withoutLossOf } from '../schema/retyped.ts';
import { mayLose, thereAndBack } from '../schema/type-changes.ts';
import { type ConversionWork, conversionOf } from './conversions.ts';
import { copiedColumns } from './copied-columns.ts';
import { type ColumnContent, lostData } from './lost-data.ts';
import { nameParts } from './name-parts.ts';

export interface DataLossOptions {
  readonly target: Pick<Target, 'settings'>;
  /** How to log in to the clone. */
  readonly clone: ConnectionSettings;
  readonly run: RunId;
  readonly audit: Audit;
  readonly signal?: AbortSignal;
}

export interface LossInput extends ConversionWork {
  readonly schema: SchemaSection | null;
  readonly data: DataSection | null;
  readonly retyped: readonly Retyped[];
}

export interface DataLoss {
  /** What was observed, without the losses of changes of type that lose nothing. */
  readonly schema: SchemaSection | null;
  /** What was observed, and what of it is lost. */
  readonly data: DataSection | null;
  /** Sizes with indexes and TOAST of what the command rewrote; null if they could not be read. */
  readonly rewrittenBytes: ReadonlyMap<string, number> | null;
  /** What was done on the target beyond reading catalogues, in words for the report. */
  readonly touched: string[];
  readonly caveats: Caveat[];
}

/** The target must not feel it: larger tables are estimated from the statistics of their columns. */
const COUNT_UP_TO_ROWS = 100_000;
const COUNT_UP_TO_BYTES = 100 * 1024 * 1024;
/** Of tables that were never analysed, so that their number of rows is not known. */
const COUNT_UNKNOWN_UP_TO_BYTES = 8 * 1024 * 1024;
const COUNT_BUDGET_MS = 3000;
const STATEMENT_TIMEOUT_MS = 1000;
const LOCK_TIMEOUT_MS = 200;

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

const SIZES = `
SELECT w.object, pg_total_relation_size(c.oid)::float8 AS bytes
  FROM unnest($1::text[], $2::text[], $3::text[]) AS w(object, schema, name)
  JOIN pg_namespace n ON n.nspname = w.schema
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name`;

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
 * Looks up on the target, which still has them, how much the columns hold that the command dropped or cut on the clone,
 * how many of their values would not survive it, and how large the tables are that it rewrote. Catalogue reads, and a
 * count of small tables that gives up early.
 */
export async function measureDataLoss(options: DataLossOptions, observed: LossInput): Promise<DataLoss> {
  const { data, transactions, retyped } = observed;
  const conversions = new Map(retyped.map((column) => [column, conversionOf(column, observed)]));
  const harmless = retyped.filter(
    (column) => !mayLose(column.from, column.to, conversions.get(column) ?? 'expression'),
  );
  const suspected = observed.schema && withoutLossOf(observed.schema, harmless);
  const columns = (suspected?.changes ?? []).filter(
    ({ kind, verb, dataLoss }) => dataLoss && kind === 'column' && (verb === 'drop' || verb === 'alter'),
  );
  const casts = new Map(
    retyped.flatMap((column) => {
      const { object, from, to } = column;
      const cast = conversions.get(column) === 'expression' ? null : thereAndBack(from, to);
      return cast === null ? [] : [[object, cast] as const];
    }),
  );
  const rewritten = (data?.tables ?? []).filter((table) => table.rewritten).map(({ relation }) => relation);
  const caveats: Caveat[] = [];
  const touched: string[] = [];
  const weighed =
    columns.length === 0 && rewritten.length === 0
      ? NOTHING
      : await orCaveat(caveats, () =>
          withReader(options, options.target.settings, async (session) => ({
            columns: await contentOf(
              session,
              [...new Set(columns.map(({ object }) => object))],
              casts,
              touched,
            ),
            rewrittenBytes: await sizesOf(session, rewritten),
          })),
        );
  const contents = weighed?.columns ?? new Map<string, ColumnContent>();
  if (weighed && columns.some(({ object }) => (contents.get(object)?.rowsWithValue ?? null) === null))
    caveats.push({
      path: 'data.lost',
      kind: 'unmeasured',
      reason:
        'columns of tables that are too large to count and were never analysed have no number of values',
    });
  const untouched = retyped.filter(({ object }) => isUntouched(contents.get(object)));
  const schema = suspected && withoutLossOf(suspected, untouched);
  const all = data && lostData({ schema, data, transactions, columns: contents });
  const copied = await copiedAmong(options, all ?? [], touched, caveats);
  const lost = all?.filter(({ kind, object }) => kind !== 'column' || !copied.includes(object));
  return {
    schema: schema && withoutEmptyLoss(schema, all ?? [], copied),
    data: data && lost ? { ...data, lost, ...(copied.length === 0 ? {} : { copied }) } : data,
    rewrittenBytes: weighed?.rewrittenBytes ?? null,
    touched,
    caveats,
  };
}

/** Dropped columns with values of which another column is a copy under the same name. Only those of small tables are compared. */
async function copiedAmong(
  options: DataLossOptions,
  lost: DataSection['lost'],
  touched: string[],
  caveats: Caveat[],
): Promise<string[]> {
  const objects = lost
    .filter(
      ({ kind, what, exact, rowsWithValue }) =>
        kind === 'column' && what === 'dropped' && exact && rowsWithValue,
    )
    .map(({ object }) => object);
  if (objects.length === 0) return [];
  const compare = () =>
    withReader(options, options.target.settings, (target) =>
      withReader(options, options.clone, (copy) => copiedColumns(target, copy, objects)),
    );
  const copied = (await orCaveat(caveats, compare)) ?? [];
  touched.push(...copied.map((object) => `compared the values of ${object}`));
  return copied;
}

/** What is dropped without a row or a value in it, or has a copy, loses no data. */
function withoutEmptyLoss(
  schema: SchemaSection,
  lost: DataSection['lost'],
  copied: readonly string[],
): SchemaSection {
  const empty = new Set([
    ...lost
      .filter(({ what, exact, rowsWithValue }) => what === 'dropped' && exact && rowsWithValue === 0)
      .map(({ kind, object }) => `${kind} ${object}`),
    ...copied.map((object) => `column ${object}`),
  ]);
  return {
    ...schema,
    changes: schema.changes.map((change) =>
      change.verb === 'drop' && empty.has(`${change.kind} ${change.object}`)
        ? { ...change, dataLoss: false }
        : change,
    ),
  };
}

function isUntouched(content: ColumnContent | undefined): boolean {
  return content?.exact === true && (content.rowsChanged ?? content.rowsWithValue) === 0;
}

const NOTHING = { columns: new Map<string, ColumnContent>(), rewrittenBytes: new Map<string, number>() };

/** At the end of a run nothing that is only looked up may cost the report. */
async function orCaveat<T>(caveats: Caveat[], read: () => Promise<T>): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    caveats.push({ path: 'data.lost', kind: 'unmeasured', reason: messageOf(error) });
    return null;
  }
}

async function withReader<T>(
  { run, audit, signal }: DataLossOptions,
  settings: ConnectionSettings,
  use: (session: Session) => Promise<T>,
): Promise<T> {
  const session = await openSession(settings, {
    run,
    audit,
    ...(signal === undefined ? {} : { signal }),
    purpose: 'weigh',
    readOnly: true,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    lockTimeoutMs: LOCK_TIMEOUT_MS,
  });
  try {
    return await use(session);
  } finally {
    await session.close();
  }
}

async function sizesOf(session: Session, wanted: readonly string[]): Promise<Map<string, number>> {
  if (wanted.length === 0) return new Map();
  const rows = await session.query<{ object: string; bytes: number }>(SIZES, named(wanted).slice(0, 3));
  return new Map(rows.map(({ object, bytes }) => [object, bytes]));
}

/** The names whole, and their parts, as parameters. */
function named(objects: readonly string[]): string[][] {
  const parts = objects.map(nameParts);
  return [[...objects], ...[0, 1, 2].map((index) => parts.map((each) => each[index] ?? ''))];
}

async function contentOf(
  session: Session,
  objects: readonly string[],
  casts: ReadonlyMap<string, string>,
  touched: string[],
): Promise<Map<string, ColumnContent>> {
  if (objects.length === 0) return new Map();
  const rows = await session.query<ContentRow>(CONTENT, named(objects));
  const deadline = performance.now() + COUNT_BUDGET_MS;
  const contents = new Map<string, ColumnContent>();
  for (const row of rows) {
    if (contents.has(row.object)) continue;
    const ofTable = rows.filter(({ schema, name }) => schema === row.schema && name === row.name);
    const mayCount = ofTable.every(isSmall) && performance.now() < deadline;
    const counted = mayCount ? await count(session, ofTable, casts, touched) : undefined;
    for (const [index, column] of ofTable.entries())
      contents.set(column.object, counted?.[index] ?? estimated(column));
  }
  return contents;
}

function isSmall({ rows, bytes, readable }: ContentRow): boolean {
  if (!readable || bytes === null) return false;
  return rows === null
    ? bytes <= COUNT_UNKNOWN_UP_TO_BYTES
    : rows <= COUNT_UP_TO_ROWS && bytes <= COUNT_UP_TO_BYTES;
}

function estimated({ rows, nullShare }: ContentRow): ColumnContent {
  return {
    rows: rows === null ? null : Math.round(rows),
    rowsWithValue: rows === null || nullShare === null ? null : Math.round(rows * (1 - nullShare)),
    rowsChanged: null,
    exact: false,
  };
}

/** Of columns of one table. @returns undefined where it took too long, or the table was locked. */
async function count(
  session: Session,
  columns: readonly ContentRow[],
  casts: ReadonlyMap<string, string>,
  touched: string[],
): Promise<ColumnContent[] | undefined> {
  const [table] = columns;
  if (!table) return [];
  const started = performance.now();
  const counts = columns.map(({ column }) => `count(${identifier(column)})::float8`).join(', ');
  const changed = columns.map(({ object, column }) => {
    const [name, cast] = [identifier(column), casts.get(object)];
    return cast === undefined ? 'NULL' : `count(*) FILTER (WHERE ${name} IS DISTINCT FROM ${name}${cast})`;
  });
  try {
    const [counted] = await session.query<{ rows: number; values: number[]; changed: (number | null)[] }>(
      `SELECT count(*)::float8 AS rows, ARRAY[${counts}] AS values, ARRAY[${changed.join(', ')}]::float8[] AS changed
         FROM ${identifier(table.schema)}.${identifier(table.name)}`,
    );
    return counted?.values.map((rowsWithValue, index) => ({
      rows: counted.rows,
      rowsWithValue,
      rowsChanged: counted.changed[index] ?? null,
      exact: true,
    }));
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    return undefined;
  } finally {
    const took = formatDuration(performance.now() - started);
    touched.push(`counted the rows of ${displayName(table.schema, table.name)} in ${took}`);
  }
}
