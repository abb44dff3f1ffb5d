import { HAS_ROWS, RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName } from '../postgres/sql/quote.ts';

/** What no statement shows of a relation, as it was before the command. */
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

interface Row {
  readonly schema: string;
  readonly name: string;
  readonly kind: string;
  readonly nullable: readonly string[];
  readonly partitioned_by: readonly string[] | null;
  readonly key: readonly string[] | null;
}

/** Reads them by their names as in the report. */
export async function readRelationsBefore(session: Session): Promise<Map<string, RelationBefore>> {
  const rows = await session.query<Row>(RELATIONS);
  return new Map(
    rows.map(({ schema, name, kind, nullable, partitioned_by: partitionedBy, key }) => [
      displayName(schema, name),
      { kind: KINDS[kind] ?? 'table', key, nullable: new Set(nullable), partitionedBy },
    ]),
  );
}
