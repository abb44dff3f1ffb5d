import { RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';

/** A column's type; of a domain or an array, `base` is the type beneath it. */
export interface ColumnType {
  readonly oid: number;
  readonly modifier: number;
  /** format_type() of it. */
  readonly written: string;
  readonly isArray: boolean;
  readonly base: number;
  /** Its name if the server or an extension defines it; else null. */
  readonly name: string | null;
  /** The labels of an enum, in their order; else null. */
  readonly labels: readonly string[] | null;
  /** The attributes of a composite type; else null. */
  readonly attributes: string | null;
}

export interface CatalogueColumn {
  readonly attnum: number;
  readonly name: string;
  readonly type: ColumnType;
  readonly generated: string;
  readonly identity: string;
  readonly notNull: boolean;
  /** Inherited columns are renamed with those of the parent. */
  readonly inherited: boolean;
  /** The column's default, or its domain's, as SQL. */
  readonly default: string | null;
  /** The default of the column only. */
  readonly ownDefault: string | null;
  /** The value of rows that are older than the column, as text; null if the rows have their own. */
  readonly missing: string | null;
  /** Changes with each write of the column's row in pg_attribute. */
  readonly version: string;
  /** Digest of all properties of the column. */
  readonly state: string;
}

export interface CatalogueTable {
  readonly oid: number;
  readonly schemaOid: number;
  readonly schema: string;
  readonly name: string;
  /** A table or a partitioned table, as pg_class has it. */
  readonly kind: 'r' | 'p';
  readonly persistence: 'p' | 'u';
  readonly file: number;
  readonly bytes: number;
  readonly identity: 'd' | 'n' | 'f' | 'i';
  readonly canWrite: boolean;
  readonly columns: readonly CatalogueColumn[];
  /** The attributes of its replica identity, or else of its primary key; null if it has neither. */
  readonly key: readonly number[] | null;
  /** Triggers that fire also for replicated rows. */
  readonly triggers: readonly { readonly name: string; readonly enabled: 'A' | 'R' }[];
  readonly writes: RowCounters;
}

/** Counters of a table, as the server has them. */
export interface RowCounters {
  readonly inserted: number;
  readonly changed: number;
}

export interface CatalogueSequence {
  readonly oid: number;
  readonly schema: string;
  readonly name: string;
  /** Null if it was not used yet. */
  readonly last: string | null;
  readonly descends: boolean;
  /** The columns whose default it is, or that own it. */
  readonly columns: readonly { readonly table: number; readonly attnum: number }[];
}

export interface CatalogueForeignKey {
  readonly oid: number;
  readonly name: string;
  readonly table: number;
  readonly parent: number;
  readonly columns: readonly number[];
  readonly keys: readonly number[];
  readonly temporal: boolean;
}

/** A CHECK constraint, or an index that is unique or enforces an exclusion. */
export interface CatalogueRule {
  readonly oid: number;
  readonly table: number;
  readonly name: string;
  /** The expression of a CHECK. */
  readonly expression: string | null;
  /** The attributes of a unique index without expressions and condition. */
  readonly columns: readonly number[] | null;
}

/** Everything that decides whether a migrated clone can follow its target. */
export interface OnlineCatalogue {
  readonly versionNum: number;
  readonly tables: readonly CatalogueTable[];
  readonly sequences: readonly CatalogueSequence[];
  readonly foreignKeys: readonly CatalogueForeignKey[];
  readonly rules: readonly CatalogueRule[];
  /** All names in the namespace of relations. */
  readonly relations: readonly { oid: number; schemaOid: number; name: string }[];
  readonly schemas: readonly { readonly oid: number; readonly name: string }[];
  /** Populated, each after those that it reads. */
  readonly materializedViews: readonly { readonly oid: number }[];
  readonly enumLabels: readonly { readonly oid: number; readonly type: string; readonly label: string }[];
}

const TYPE = `jsonb_build_object('oid', t.oid::int8, 'modifier', a.atttypmod, 'written', format_type(a.atttypid, a.atttypmod),
  'isArray', e.oid IS NOT NULL, 'base', b.oid::int8,
  'name', CASE WHEN b.typnamespace = 'pg_catalog'::regnamespace OR b.typname = 'citext' THEN b.typname END,
  'labels', (SELECT jsonb_agg(l.enumlabel ORDER BY l.enumsortorder) FROM pg_enum l WHERE l.enumtypid = b.oid),
  'attributes', (SELECT string_agg(format('%s %s', p.attname, p.atttypid), ',' ORDER BY p.attnum) FROM pg_attribute p
    WHERE b.typtype = 'c' AND p.attrelid = b.typrelid AND p.attnum > 0 AND NOT p.attisdropped))`;

const COLUMNS = `SELECT coalesce(jsonb_agg(jsonb_build_object('attnum', a.attnum, 'name', a.attname, 'type', ${TYPE},
    'generated', a.attgenerated, 'identity', a.attidentity, 'notNull', a.attnotnull, 'inherited', a.attinhcount > 0,
    'ownDefault', f.expression,
    'default', coalesce(f.expression, CASE WHEN t.typtype = 'd' THEN pg_get_expr(t.typdefaultbin, 0) END),
    'missing', (a.attmissingval::text::text[])[1],
    'version', a.xmin::text,
    'state', md5(concat_ws(' ', (to_jsonb(a) - '{attmissingval,atttypmod,atttypid}'::text[])::text, f.expression))) ORDER BY a.attnum), '[]')
  FROM pg_attribute a
  JOIN pg_type t ON t.oid = a.atttypid
  JOIN pg_type d ON d.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
  LEFT JOIN pg_type e ON e.oid = d.typelem AND d.typcategory = 'A'
  JOIN pg_type b ON b.oid = coalesce(e.oid, d.oid)
  LEFT JOIN LATERAL (SELECT pg_get_expr(x.adbin, x.adrelid) AS expression FROM pg_attrdef x
    WHERE x.adrelid = a.attrelid AND x.adnum = a.attnum) f ON true
 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped`;

// A deferrable key identifies no rows.
const KEY = `SELECT to_jsonb((i.indkey::int2[])[0:i.indnkeyatts - 1]) FROM pg_index i
 WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate
   AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END`;

const TABLES = `
SELECT c.oid::int8::float8 AS oid, n.oid::int8::float8 AS "schemaOid", n.nspname AS schema, c.relname AS name, c.relkind AS kind,
  c.relpersistence AS persistence, coalesce(pg_relation_filenode(c.oid), 0)::int8::float8 AS file,
  CASE WHEN c.relkind = 'r' THEN pg_relation_size(c.oid) ELSE 0 END::float8 AS bytes, c.relreplident AS identity,
  NOT c.relrowsecurity OR me.rolsuper OR me.rolbypassrls
    OR (pg_has_role(c.relowner, 'USAGE') AND NOT c.relforcerowsecurity) AS "canWrite",
  (${COLUMNS}) AS columns, (${KEY}) AS key,
  (SELECT coalesce(jsonb_agg(jsonb_build_object('name', g.tgname, 'enabled', g.tgenabled) ORDER BY g.tgname), '[]')
     FROM pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal AND g.tgenabled IN ('A', 'R') AND c.relkind = 'r') AS triggers,
  jsonb_build_object('inserted', coalesce(pg_stat_get_tuples_inserted(c.oid), 0),
    'changed', coalesce(pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid), 0)) AS writes
  FROM ${RELATIONS_AND_SCHEMAS} JOIN pg_roles me ON me.rolname = current_user
 WHERE c.relkind IN ('r', 'p') AND ${USER_SCHEMA} ORDER BY c.oid`;

const SEQUENCES = `
SELECT c.oid::int8::float8 AS oid, n.nspname AS schema, c.relname AS name, s.seqincrement < 0 AS descends,
  CASE WHEN $1 THEN pg_sequence_last_value(c.oid)::text END AS last,
  (SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object('table', u.oid, 'attnum', u.attnum)), '[]') FROM (
     SELECT d.refobjid::int8 AS oid, d.refobjsubid AS attnum FROM pg_depend d
      WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
     UNION ALL SELECT f.adrelid::int8, f.adnum FROM pg_depend d JOIN pg_attrdef f ON f.oid = d.objid
      WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid) u) AS columns
  FROM ${RELATIONS_AND_SCHEMAS} JOIN pg_sequence s ON s.seqrelid = c.oid WHERE ${USER_SCHEMA} ORDER BY c.oid`;

// One that is not valid promises nothing of rows that exist.
const FOREIGN_KEYS = `
SELECT k.oid::int8::float8 AS oid, k.conname AS name, k.conrelid::int8::float8 AS table, k.confrelid::int8::float8 AS parent,
  to_jsonb(k.conkey) AS columns, to_jsonb(k.confkey) AS keys,
  coalesce((to_jsonb(k) -> 'conperiod')::bool, false) AS temporal
  FROM pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0 AND k.convalidated
   AND (to_jsonb(k) -> 'conenforced') IS DISTINCT FROM 'false' ORDER BY k.oid`;

const RULES = `
SELECT k.oid::int8::float8 AS oid, k.conrelid::int8::float8 AS table, k.conname AS name,
  pg_get_expr(k.conbin, k.conrelid) AS expression, NULL::jsonb AS columns
  FROM pg_constraint k WHERE k.contype = 'c' AND k.conrelid <> 0 AND (to_jsonb(k) -> 'conenforced') IS DISTINCT FROM 'false'
UNION ALL
SELECT i.indexrelid::int8::float8, i.indrelid::int8::float8, c.relname, NULL,
  CASE WHEN i.indisunique AND i.indexprs IS NULL AND i.indpred IS NULL
       THEN to_jsonb((i.indkey::int2[])[0:i.indnkeyatts - 1]) END
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
 WHERE (i.indisunique OR i.indisexclusion) AND c.relkind = 'i' ORDER BY oid`;

const RELATIONS = `
SELECT c.oid::int8::float8 AS oid, c.relnamespace::int8::float8 AS "schemaOid", c.relname AS name
  FROM ${RELATIONS_AND_SCHEMAS} WHERE ${USER_SCHEMA}`;

const SCHEMAS = `SELECT n.oid::int8::float8 AS oid, n.nspname AS name FROM pg_namespace n WHERE ${USER_SCHEMA}`;

// The depth of a view is one more than that of the deepest that it reads.
const MATERIALIZED = `
WITH RECURSIVE reads AS (
  SELECT DISTINCT r.ev_class AS view, d.refobjid AS read FROM pg_rewrite r
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
   WHERE d.refobjid <> r.ev_class),
depths AS (
  SELECT c.oid, 0 AS depth FROM pg_class c WHERE c.relkind = 'm'
  UNION SELECT r.view, d.depth + 1 FROM depths d JOIN reads r ON r.read = d.oid)
SELECT c.oid::int8::float8 AS oid FROM ${RELATIONS_AND_SCHEMAS} JOIN depths ON depths.oid = c.oid
 WHERE c.relkind = 'm' AND c.relispopulated AND ${USER_SCHEMA} GROUP BY c.oid ORDER BY max(depths.depth), c.oid`;

const ENUM_LABELS = `
SELECT e.oid::int8::float8 AS oid, format_type(e.enumtypid, NULL) AS type, e.enumlabel AS label FROM pg_enum e`;

/**
 * Reads the catalogue of the database that the session is in. The read of a sequence counts as a use of it, and a rehearsal reports
 * that sequences of the target were used. So only those of the clone are read.
 */
export async function readOnlineCatalogue(
  session: Session,
  database: 'target' | 'clone',
): Promise<OnlineCatalogue> {
  const [version] = await session.query<{ num: number }>(
    "SELECT current_setting('server_version_num')::int AS num",
  );
  return {
    versionNum: version?.num ?? 0,
    tables: await session.query<CatalogueTable>(TABLES),
    sequences: await session.query<CatalogueSequence>(SEQUENCES, [database === 'clone']),
    foreignKeys: await session.query<CatalogueForeignKey>(FOREIGN_KEYS),
    rules: await session.query<CatalogueRule>(RULES),
    relations: await session.query<{ oid: number; schemaOid: number; name: string }>(RELATIONS),
    schemas: await session.query<{ oid: number; name: string }>(SCHEMAS),
    materializedViews: await session.query<{ oid: number }>(MATERIALIZED),
    enumLabels: await session.query<{ oid: number; type: string; label: string }>(ENUM_LABELS),
  };
}

export function byOid<T extends { readonly oid: number }>(rows: readonly T[], oid: number): T | undefined {
  return rows.find((row) => row.oid === oid);
}
