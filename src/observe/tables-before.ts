import { HAS_ROWS, RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName } from '../postgres/sql/quote.ts';
import { type Token, tokensOf } from '../postgres/sql/tokens.ts';

/** Facts about a relation before the command that no statement shows. */
export interface RelationBefore {
  readonly kind: 'table' | 'partitioned table' | 'materialized view';
  /** The columns of its primary key, or of another unique index over columns without NULLs; null if it has none. */
  readonly key: readonly string[] | null;
  readonly nullable: ReadonlySet<string>;
  /** Columns that its rows are distributed by; null if it is not partitioned, or by an expression. */
  readonly partitionedBy: readonly string[] | null;
}

const KINDS: Readonly<Record<string, RelationBefore['kind']>> = {
  r: 'table',
  p: 'partitioned table',
  m: 'materialized view',
};

// The columns of a materialized view are never NOT NULL.
const RELATIONS = `
SELECT n.nspname AS schema, c.relname AS name, c.relkind AS kind,
  ARRAY(SELECT a.attname::text FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND NOT a.attnotnull) AS nullable,
  (SELECT array_agg(a.attname::text ORDER BY k.place)
    FROM pg_partitioned_table t CROSS JOIN unnest(t.partattrs::int2[]) WITH ORDINALITY AS k (attnum, place)
    JOIN pg_attribute a ON a.attrelid = t.partrelid AND a.attnum = k.attnum
    WHERE t.partrelid = c.oid AND 0 <> ALL (t.partattrs::int2[])) AS partitioned_by,
  (SELECT array_agg(a.attname::text ORDER BY k.place)
    FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
    WHERE k.place <= i.indnkeyatts) AS key
FROM ${RELATIONS_AND_SCHEMAS}
LEFT JOIN LATERAL (
  SELECT x.indkey, x.indnkeyatts FROM pg_index x
  WHERE x.indrelid = c.oid AND x.indisunique AND x.indimmediate AND x.indisvalid
    AND x.indpred IS NULL AND x.indexprs IS NULL
    AND (c.relkind = 'm' OR NOT EXISTS (SELECT FROM pg_attribute a
      WHERE a.attrelid = c.oid AND a.attnum = ANY (x.indkey::int2[]) AND NOT a.attnotnull))
  ORDER BY x.indisprimary DESC, x.indnkeyatts, x.indexrelid LIMIT 1
) AS i ON true
WHERE ${HAS_ROWS} AND ${USER_SCHEMA}`;

/** Reads them by their names as in the report. */
export async function readRelationsBefore(session: Session): Promise<Map<string, RelationBefore>> {
  const rows = await session.query<{
    schema: string;
    name: string;
    kind: string;
    nullable: string[];
    partitioned_by: string[] | null;
    key: string[] | null;
  }>(RELATIONS);
  return new Map(
    rows.map(({ schema, name, kind, nullable, partitioned_by: partitionedBy, key }) => [
      displayName(schema, name),
      { kind: KINDS[kind] ?? 'table', key, nullable: new Set(nullable), partitionedBy },
    ]),
  );
}

export interface DefinedBefore {
  readonly schema: string;
  readonly name: string;
  /** Words of its definition. */
  readonly tokens: readonly Token[];
}

/** A column before the command, and what belonged to it. */
export interface ColumnBefore {
  /** Its default as SQL. */
  readonly default: string | null;
  readonly isNotNull: boolean;
  /** The name of the constraint for that, which it has since version 18. */
  readonly notNullName: string | null;
  readonly indexes: readonly DefinedBefore[];
  /** CHECK constraints that are validated. */
  readonly checks: readonly DefinedBefore[];
  /** Everything else there is, in words. */
  readonly others: readonly string[];
}

const COLUMNS = `
SELECT n.nspname AS schema, c.relname AS name, a.attname AS column, a.attnotnull AS "isNotNull",
  (SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d
    WHERE d.adrelid = c.oid AND d.adnum = a.attnum AND a.attgenerated = '') AS default,
  (SELECT t.conname FROM pg_constraint t
    WHERE t.conrelid = c.oid AND t.contype = 'n' AND t.conkey = ARRAY[a.attnum]) AS "notNullName",
  (SELECT coalesce(json_agg(json_build_object('schema', i.nspname, 'name', i.relname, 'sql', i.sql)), '[]') FROM (
    SELECT m.nspname, r.relname, pg_get_indexdef(x.indexrelid) AS sql
    FROM pg_index x JOIN pg_class r ON r.oid = x.indexrelid JOIN pg_namespace m ON m.oid = r.relnamespace
    WHERE x.indrelid = c.oid AND x.indisvalid AND NOT x.indisreplident AND NOT x.indisclustered
      AND EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = x.indexrelid
        AND d.refobjid = c.oid AND d.refobjsubid = a.attnum)
    ORDER BY x.indexrelid) AS i) AS indexes,
  (SELECT coalesce(json_agg(json_build_object('schema', n.nspname, 'name', t.conname, 'sql', pg_get_constraintdef(t.oid))
      ORDER BY t.oid), '[]')
    FROM pg_constraint t WHERE t.conrelid = c.oid AND t.contype = 'c' AND t.convalidated AND NOT t.connoinherit
      AND a.attnum = ANY (t.conkey)) AS checks,
  ARRAY(
    SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid) FROM pg_depend d
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.refobjsubid = a.attnum
      AND NOT (d.classid = 'pg_attrdef'::regclass AND a.attgenerated = '' AND EXISTS (
        SELECT FROM pg_attrdef e WHERE e.oid = d.objid AND e.adrelid = c.oid AND e.adnum = a.attnum))
      AND NOT (d.classid = 'pg_constraint'::regclass AND EXISTS (
        SELECT FROM pg_constraint t WHERE t.oid = d.objid
          AND (t.contype = 'n' OR t.contype = 'c' AND t.convalidated AND NOT t.connoinherit)))
      AND NOT (d.classid = 'pg_class'::regclass AND EXISTS (SELECT FROM pg_index x
        WHERE x.indexrelid = d.objid AND x.indisvalid AND NOT x.indisreplident AND NOT x.indisclustered))
    UNION ALL SELECT 'privileges of its own' WHERE a.attacl IS NOT NULL
    UNION ALL SELECT 'options of its own' WHERE a.attoptions IS NOT NULL OR a.attidentity <> '' OR a.attcompression <> ''
    UNION ALL SELECT 'a comment' WHERE col_description(c.oid, a.attnum) IS NOT NULL
    UNION ALL SELECT 'tables that inherit from its own'
      WHERE EXISTS (SELECT FROM pg_inherits h WHERE c.oid IN (h.inhparent, h.inhrelid))) AS others
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind = 'r' AND a.attname = ANY ($1)
  AND ${USER_SCHEMA}`;

interface Defined {
  readonly schema: string;
  readonly name: string;
  readonly sql: string;
}

/** Reads the columns of these names in all tables, by their qualified names as in the report. */
export async function readColumnsBefore(
  session: Session,
  names: readonly string[],
): Promise<Map<string, ColumnBefore>> {
  if (names.length === 0) return new Map();
  const rows = await session.query<
    Omit<ColumnBefore, 'indexes' | 'checks'> &
      Record<'schema' | 'name' | 'column', string> &
      Record<'indexes' | 'checks', Defined[]>
  >(COLUMNS, [[...new Set(names)]]);
  const columns = rows.map(
    async ({ indexes, checks, ...row }): Promise<[string, ColumnBefore]> => [
      displayName(row.schema, row.name, row.column),
      { ...row, indexes: await read(indexes), checks: await read(checks) },
    ],
  );
  return new Map(await Promise.all(columns));
}

function read(defined: readonly Defined[]): Promise<DefinedBefore[]> {
  return Promise.all(defined.map(async ({ sql, ...each }) => ({ ...each, tokens: await tokensOf(sql) })));
}
