import { sqlstateOf } from '../errors.ts';
import type { ProfiledRelation } from '../model/profile-model.ts';
import {
  HAS_ROWS,
  PARTITIONED_TABLE,
  RELATIONS_AND_SCHEMAS,
  USER_SCHEMA,
} from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName } from '../postgres/sql/quote.ts';

/** A relation of a profile without its rates. */
export type SizedRelation = Pick<
  ProfiledRelation,
  'relation' | 'kind' | 'sizeBytes' | 'indexBytes' | 'rows' | 'owner' | 'grants'
>;

export interface RelationSizes {
  readonly relations: readonly SizedRelation[];
  /** Sizes are those at the last VACUUM or ANALYZE, because a relation was locked. */
  readonly isLate: boolean;
}

// pg_relation_size() takes ACCESS SHARE on each relation, so that it waits for a migration that is running.
const NOW = {
  heap: `pg_relation_size(c.oid) + CASE c.reltoastrelid WHEN 0 THEN 0 ELSE pg_relation_size(c.reltoastrelid) END`,
  indexes: 'pg_indexes_size(c.oid)',
};
const AT_LAST_VACUUM = {
  heap: `(c.relpages + coalesce((SELECT t.relpages FROM pg_class t WHERE t.oid = c.reltoastrelid), 0))::int8
           * current_setting('block_size')::int8`,
  indexes: `(SELECT coalesce(sum(x.relpages), 0) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
              WHERE i.indrelid = c.oid)::int8 * current_setting('block_size')::int8`,
};

const relationsSql = ({ heap, indexes }: typeof NOW) => `
SELECT n.nspname AS schema, c.relname AS name, c.relkind AS kind, pn.nspname AS "parentSchema", pc.relname AS parent,
       CASE WHEN c.relkind <> 'p' THEN (${heap})::float8 END AS heap,
       CASE WHEN c.relkind <> 'p' THEN (${indexes})::float8 END AS indexes,
       CASE WHEN c.relkind <> 'p' AND c.reltuples >= 0 THEN c.reltuples::float8 END AS rows,
       pg_get_userbyid(c.relowner)::text AS owner,
       (SELECT coalesce(json_agg(json_build_object('role', g.role, 'privileges', g.privileges) ORDER BY g.role), '[]')
          FROM (SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END AS role,
                       array_agg(a.privilege_type ORDER BY a.privilege_type) AS privileges
                  FROM aclexplode(c.relacl) a WHERE a.grantee <> c.relowner GROUP BY 1) g) AS grants
  FROM ${RELATIONS_AND_SCHEMAS}${PARTITIONED_TABLE}
 WHERE ${HAS_ROWS} AND ${USER_SCHEMA}
 ORDER BY 1, 2`;

interface RelationRow {
  schema: string;
  name: string;
  kind: 'r' | 'p' | 'm';
  parentSchema: string | null;
  parent: string | null;
  heap: number | null;
  indexes: number | null;
  rows: number | null;
  owner: string;
  grants: SizedRelation['grants'];
}

const LOCK_NOT_AVAILABLE = '55P03';

/**
 * Reads the sizes of all tables and materialized views of the session's database, their estimated rows and their grants, from the
 * catalogues alone.
 */
export async function readRelationSizes(session: Session): Promise<RelationSizes> {
  try {
    return { relations: withSums(await session.query<RelationRow>(relationsSql(NOW))), isLate: false };
  } catch (error) {
    if (sqlstateOf(error) !== LOCK_NOT_AVAILABLE) throw error;
    const rows = await session.query<RelationRow>(relationsSql(AT_LAST_VACUUM));
    return { relations: withSums(rows), isLate: true };
  }
}

const KINDS = { r: 'table', p: 'partitioned table', m: 'materialized view' } as const;

/** A partitioned table has no file of its own: it gets the sums of its partitions. */
function withSums(rows: readonly RelationRow[]): SizedRelation[] {
  const partitions = new Map<string, RelationRow[]>();
  for (const row of rows) {
    if (row.parent === null || row.parentSchema === null) continue;
    const parent = displayName(row.parentSchema, row.parent);
    partitions.set(parent, [...(partitions.get(parent) ?? []), row]);
  }
  const sumOf = (row: RelationRow, figure: 'heap' | 'indexes' | 'rows'): number | null =>
    row.kind !== 'p'
      ? row[figure]
      : (partitions.get(displayName(row.schema, row.name)) ?? [])
          .map((each) => sumOf(each, figure))
          .reduce<number | null>((sum, each) => (sum === null || each === null ? null : sum + each), 0);
  return rows.map((row) => ({
    relation: displayName(row.schema, row.name),
    kind: KINDS[row.kind],
    sizeBytes: sumOf(row, 'heap'),
    indexBytes: sumOf(row, 'indexes'),
    rows: sumOf(row, 'rows'),
    owner: row.owner,
    grants: row.grants,
  }));
}
