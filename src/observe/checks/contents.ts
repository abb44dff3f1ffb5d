import { isBookkeeping } from '../../model/migration-tables.ts';
import type { FurtherRunSection } from '../../model/report.ts';
import { RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, identifier } from '../../postgres/sql/quote.ts';

/** Contents of one table, in any order of its rows and columns. */
export interface TableContents {
  readonly rows: number;
  /** Digest of whole rows, their columns in the order of their names. */
  readonly digest: string;
  readonly columns: ReadonlyMap<string, string>;
}

export interface Contents {
  /** By qualified name: a table that is dropped and made again has another OID. */
  readonly tables: ReadonlyMap<string, TableContents>;
  /** Too large to be read, or not readable. */
  readonly skipped: ReadonlySet<string>;
}

/** Reading takes about a second for 50 MB. */
const TABLE_BYTES = 64 * 1024 * 1024;
const ALL_BYTES = 512 * 1024 * 1024;
const AT_ONCE = 20;

const TABLES = `
select n.nspname as schema, c.relname as name, pg_catalog.pg_relation_size(c.oid) as bytes,
  pg_catalog.has_schema_privilege(n.oid, 'USAGE') and pg_catalog.has_table_privilege(c.oid, 'SELECT')
    and not (c.relrowsecurity and pg_catalog.row_security_active(c.oid)) as readable,
  array(select a.attname::text from pg_catalog.pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and not (c.relkind = 'S' and a.attname = 'log_cnt')
    order by a.attname) as columns,
  array(select a.attname::text from pg_catalog.pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      and a.atttypid::regtype::text in ('timestamp without time zone', 'timestamp with time zone', 'date',
        'time without time zone', 'time with time zone')) as times,
  array(select a.attname::text from pg_catalog.pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.atttypid = 'uuid'::regtype) as uuids
from ${RELATIONS_AND_SCHEMAS}
where (c.relkind = 'r' or $1 and (c.relkind = 'm' and c.relispopulated or c.relkind = 'S')) and ${USER_SCHEMA}
order by 3, 1, 2`;

interface Row {
  schema: string;
  name: string;
  bytes: string | null;
  readable: boolean | null;
  columns: string[];
  /** Columns with times, and with UUIDs. */
  times: string[];
  uuids: string[];
}

/** Times and UUIDs differ between any two runs: they may count by their values, by their number only, or not at all. */
export type Moments = 'compared' | 'counted' | 'left out';

/**
 * Digests the rows of every table of the session's database, the small ones first, up to 64 MB each and 512 MB in all.
 * Digests of one server can be compared with each other only.
 * @param options.tableBytes size up to which a table is read. @param options.all materialized views and sequences as well.
 */
export async function readContents(
  session: Session,
  {
    tableBytes = TABLE_BYTES,
    moments = 'compared',
    all = false,
  }: { tableBytes?: number; moments?: Moments; all?: boolean } = {},
): Promise<Contents> {
  const skipped = new Set<string>();
  const wanted: Row[] = [];
  let bytes = 0;
  for (const table of await session.query<Row>(TABLES, [all])) {
    const size = Number(table.bytes ?? Number.POSITIVE_INFINITY);
    bytes += size;
    if (!table.readable || size > tableBytes || bytes > ALL_BYTES) skipped.add(nameOf(table));
    else wanted.push(table);
  }
  const tables = new Map<string, TableContents>();
  for (let start = 0; start < wanted.length; start += AT_ONCE)
    for (const read of await readTables(session, wanted.slice(start, start + AT_ONCE), moments))
      tables.set(...read);
  return { tables, skipped };
}

const hashed = (text: string) => `coalesce(pg_catalog.sum(pg_catalog.hashtextextended(${text}, 0)), 0)::text`;

const nameOf = ({ schema, name }: Row) => displayName(schema, name);

/** In one statement, so that thousands of small tables do not take a round trip each. */
async function readTables(
  session: Session,
  tables: readonly Row[],
  moments: Moments,
): Promise<(readonly [string, TableContents])[]> {
  const found = await session.query<{ place: number; rows: string; digest: string; columns: string[] }>(
    tables.map((table, place) => digestSql(withMoments(table, moments), place)).join(' union all '),
  );
  return found.flatMap(({ place, rows, digest, columns }) => {
    const table = tables[place];
    if (!table) return [];
    const contents = {
      rows: Number(rows),
      digest,
      columns: new Map(
        withMoments(table, moments).columns.map((column, index) => [column, columns[index] ?? '']),
      ),
    };
    return [[nameOf(table), contents] as const];
  });
}

type Read = Row & { readonly counted: ReadonlySet<string> };

function withMoments(table: Row, moments: Moments): Read {
  const all = new Set([...table.times, ...table.uuids]);
  if (moments === 'left out')
    return { ...table, columns: table.columns.filter((column) => !all.has(column)), counted: new Set() };
  return { ...table, counted: moments === 'counted' ? all : new Set() };
}

function digestSql({ schema, name, columns, counted, uuids }: Read, place: number): string {
  const valued = columns.filter((column) => !counted.has(column)).map((column) => `t.${identifier(column)}`);
  const whole = valued.length === 0 ? "''" : `row(${valued.join(', ')})::text`;
  // NULL is counted apart: hashed, it would be nothing. One UUID in all rows is another result than one in each.
  const digestOf = (column: string, quoted: string) => {
    if (!counted.has(column)) return `${hashed(`${quoted}::text`)} || '/' ||`;
    return uuids.includes(column) ? `pg_catalog.count(distinct ${quoted}) || '/' ||` : "'' ||";
  };
  const each = columns.map((column) => {
    const quoted = `t.${identifier(column)}`;
    return `${digestOf(column, quoted)} pg_catalog.count(${quoted})`;
  });
  return `select ${place} as place, pg_catalog.count(*) as rows, ${hashed(whole)} as digest,
    array[${each.join(', ')}]::text[] as columns from only ${identifier(schema)}.${identifier(name)} t`;
}

export type ContentsComparison = Pick<
  FurtherRunSection,
  'dataDifferences' | 'tablesCompared' | 'tablesSkipped'
>;

/** Tables of a clone before the command and after it. */
export interface Effect {
  readonly before: Contents;
  readonly after: Contents;
}

/**
 * Compares what commands did to two clones. The second one was made later, and others may have written to a table in between: of such a
 * table only the number of rows that came or went is compared.
 */
export function compareEffects(one: Effect, other: Effect): ContentsComparison {
  const compared = compareContents(one.after, other.after);
  const dataDifferences = compared.dataDifferences.flatMap((difference) => {
    const { relation } = difference;
    if (one.before.tables.get(relation)?.digest === other.before.tables.get(relation)?.digest)
      return [difference];
    const [alone, together] = [gained(one, relation), gained(other, relation)];
    return alone === together
      ? []
      : [{ ...difference, what: `${alone} more rows after one run, ${together} after the others` }];
  });
  return { ...compared, dataDifferences };
}

function gained({ before, after }: Effect, relation: string): number {
  return (after.tables.get(relation)?.rows ?? 0) - (before.tables.get(relation)?.rows ?? 0);
}

/** Compares tables and columns that are on both sides; which are not is for the comparison of schemas to tell. */
export function compareContents(before: Contents, after: Contents): ContentsComparison {
  const dataDifferences: FurtherRunSection['dataDifferences'] = [];
  let tablesCompared = 0;
  for (const [relation, then] of before.tables) {
    const now = after.tables.get(relation);
    if (!now) continue;
    tablesCompared++;
    const what = difference(then, now);
    if (what !== null) dataDifferences.push({ relation, what, bookkeeping: isBookkeeping(relation) });
  }
  const skipped = new Set([...before.skipped, ...after.skipped]);
  return { dataDifferences, tablesCompared, tablesSkipped: skipped.size };
}

function difference(then: TableContents, now: TableContents): string | null {
  const common = [...then.columns.keys()].filter((column) => now.columns.has(column));
  const sameColumns = common.length === then.columns.size && common.length === now.columns.size;
  if (then.rows !== now.rows) return `${then.rows} → ${now.rows} rows`;
  const changed = common.filter((column) => then.columns.get(column) !== now.columns.get(column));
  if (sameColumns && changed.length === 0 && then.digest === now.digest) return null;
  if (changed.length > 0) return `other values in ${changed.map((column) => displayName(column)).join(', ')}`;
  return sameColumns ? 'the same values in other rows' : null;
}
