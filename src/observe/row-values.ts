import { IS_TABLE } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { identifier, nameParts } from '../postgres/sql/quote.ts';

/** Pages that a sample reads, evenly over the table. */
export const SAMPLED_PAGES = 64;

const TABLES = `
SELECT w.relation, n.nspname::text AS schema, r.relname::text AS name, r.relkind = 'p' AS partitioned,
  CASE WHEN leaves.tuples >= 0 THEN leaves.tuples END AS rows, leaves.pages, leaves.leaves,
  has_table_privilege(r.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE')
    AND NOT (r.relrowsecurity AND row_security_active(r.oid)) AS readable,
  (SELECT json_object_agg(a.attname, format_type(a.atttypid, a.atttypmod)) FROM pg_attribute a
    WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '') AS types,
  ARRAY(SELECT a.attname::text FROM pg_index i
     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
    WHERE i.indrelid = r.oid AND i.indisprimary ORDER BY a.attnum) AS key
  FROM unnest($1::text[], $2::text[], $3::text[]) AS w(relation, schema, name)
  JOIN pg_namespace wn ON wn.nspname = w.schema
  JOIN pg_class c ON c.relnamespace = wn.oid AND c.relname = w.name AND ${IS_TABLE}
  JOIN pg_class r ON r.oid = CASE WHEN c.relispartition THEN pg_partition_root(c.oid) ELSE c.oid END
  JOIN pg_namespace n ON n.oid = r.relnamespace
 CROSS JOIN LATERAL (
   SELECT CASE WHEN min(l.reltuples) < 0 THEN -1 ELSE sum(l.reltuples) END::float8 AS tuples, sum(s.pages)::float8 AS pages,
          json_agg(json_build_object('schema', ln.nspname, 'name', l.relname, 'pages', s.pages)) AS leaves
     FROM (SELECT t.relid FROM pg_partition_tree(r.oid) t WHERE t.isleaf AND r.relkind = 'p'
           UNION ALL SELECT r.oid WHERE r.relkind <> 'p') leaf
     JOIN pg_class l ON l.oid = leaf.relid JOIN pg_namespace ln ON ln.oid = l.relnamespace
    CROSS JOIN LATERAL (SELECT pg_relation_size(l.oid) / current_setting('block_size')::int AS pages) s) leaves`;

export interface ComparedTable {
  readonly relation: string;
  readonly schema: string;
  readonly name: string;
  readonly partitioned: boolean;
  readonly rows: number | null;
  readonly pages: number;
  readonly leaves: readonly { readonly schema: string; readonly name: string; readonly pages: number }[];
  readonly readable: boolean;
  /** By column; null if it has none. */
  readonly types: Readonly<Record<string, string>> | null;
  readonly key: readonly string[];
}

/** One row: its key, and a hash of the text of each value. */
export interface ComparedRow {
  readonly key: readonly string[];
  readonly values: readonly (string | null)[];
}

/** The names whole, and their parts, as parameters. */
export function namedParts(objects: readonly string[]): string[][] {
  const parts = objects.map(nameParts);
  return [[...objects], ...[0, 1, 2].map((index) => parts.map((each) => each[index] ?? ''))];
}

/** Reads tables by their names, or the tables of which they are partitions. */
export function readTables(session: Session, relations: readonly string[]): Promise<ComparedTable[]> {
  return session.query<ComparedTable & object>(TABLES, namedParts(relations).slice(0, 3));
}

/** A column, or a part of its values. */
export interface ReadColumn {
  readonly name: string;
  readonly type: string;
  /** Writes the part as SQL; missing: the whole value. */
  readonly part?: (value: string) => string;
  /** The text itself is read, and no hash of it. */
  readonly plain?: true;
}

interface Source {
  readonly table: ComparedTable;
  readonly key: readonly string[];
  readonly columns: readonly ReadColumn[];
  /** Leaves out rows that transactions from this id on have written: others did, since the clone was made. */
  readonly before?: number | undefined;
}

function selected({ key, columns }: Source): string {
  const values = columns.map(({ name, type, part = (whole) => whole, plain = false }) => {
    const value = `t.${identifier(name)}`;
    const text = part(/^numeric/.test(type) ? `trim_scale(${value})` : value);
    return plain ? text : `hashtextextended(${text}::text COLLATE "C", 0)::text`;
  });
  const keys = key.map((column) => `t.${identifier(column)}::text`);
  return `ARRAY[${keys.join(', ')}]::text[] AS key, ARRAY[${values.join(', ')}]::text[] AS values`;
}

/** The first ids are not those of transactions. */
const FIRST_XID = 3;

function isOlder({ before }: Source): string {
  return before === undefined ? 'true' : `age(t.xmin) > age('${Math.max(FIRST_XID, before)}'::xid)`;
}

function fromOf({ schema, name, partitioned }: ComparedTable): string {
  return `${partitioned ? '' : 'ONLY '}${identifier(schema)}.${identifier(name)}`;
}

export function allOf(source: Source): string {
  return `SELECT ${selected(source)} FROM ${fromOf(source.table)} t WHERE ${isOlder(source)}`;
}

/** Rows of some pages, found without reading the others. */
export function sampleOf(source: Source): string {
  return pagesOf(source.table, selected(source), isOlder(source));
}

/** Selects from some pages, evenly over the table `t`. */
export function pagesOf({ leaves, pages }: ComparedTable, columns: string, condition = 'true'): string {
  const parts = Array.from({ length: SAMPLED_PAGES }, (_, index) => {
    let page = Math.floor(((index + 0.5) * pages) / SAMPLED_PAGES);
    for (const leaf of leaves) {
      if (page < leaf.pages)
        return `SELECT ${columns} FROM ONLY ${identifier(leaf.schema)}.${identifier(leaf.name)} t
          WHERE ctid >= '(${page},0)'::tid AND ctid < '(${page + 1},0)'::tid AND ${condition}`;
      page -= leaf.pages;
    }
    return null;
  });
  return [...new Set(parts.filter((part) => part !== null))].join(' UNION ALL ');
}

/** The rows with the same keys as these. */
export function rowsByKey(
  clone: Session,
  source: Source,
  rows: readonly ComparedRow[],
): Promise<(ComparedRow & object)[]> {
  const { key, table } = source;
  const names = key.map((_, index) => `k${index}`);
  const lists = key.map((_, index) => `$${index + 1}::text[]`);
  const on = key.map(
    (column, index) => `t.${identifier(column)} = w.k${index}::${table.types?.[column] ?? 'text'}`,
  );
  return clone.query<ComparedRow & object>(
    `SELECT ${selected(source)} FROM unnest(${lists.join(', ')}) AS w(${names.join(', ')})
       JOIN ${fromOf(table)} t ON ${on.join(' AND ')}`,
    key.map((_, index) => rows.map((row) => row.key[index] ?? '')),
  );
}
