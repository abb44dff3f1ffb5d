import { sqlstateOf } from '../errors.ts';
import type { PlannerStatistics, ProfiledAccess, ProfiledRelation } from '../model/profile-model.ts';
import {
  HAS_FILES,
  HAS_ROWS,
  IS_QUERIED,
  ofExtension,
  PARTITIONED_TABLE,
  RELATIONS_AND_SCHEMAS,
  USER_SCHEMA,
  userSchema,
} from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName } from '../postgres/sql/quote.ts';

/** Readings that only a profile of the target takes: privileges, the planner's statistics, and sizes. */

/** Relations as applications use them: partitions are reached through their table, and those of extensions are not the application's. */
const SCHEMAS = `
WITH relations AS MATERIALIZED (
  SELECT n.nspname::text AS schema, c.relowner, c.relacl
    FROM ${RELATIONS_AND_SCHEMAS}
   WHERE ${IS_QUERIED} AND NOT c.relispartition AND ${USER_SCHEMA}
     AND NOT ${ofExtension('pg_class', 'c.oid')}
), granted AS (
  SELECT r.schema, pg_get_userbyid(a.grantee)::text AS role, a.privilege_type::text AS privilege, count(*)::int AS relations
    FROM relations r CROSS JOIN aclexplode(r.relacl) a
   WHERE a.grantee <> 0 AND a.grantee <> r.relowner AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
   GROUP BY 1, 2, 3
)
SELECT r.schema, count(*)::int AS relations,
       pg_get_userbyid(mode() WITHIN GROUP (ORDER BY r.relowner))::text AS creator,
       (SELECT coalesce(json_agg(json_build_object('role', g.role, 'privilege', g.privilege, 'relations', g.relations)
                                 ORDER BY g.role, g.privilege), '[]')
          FROM granted g WHERE g.schema = r.schema) AS granted
  FROM relations r GROUP BY 1 ORDER BY 1`;

const ROLES = `
SELECT g.rolname::text AS role,
       ARRAY(SELECT o.rolname::text FROM pg_roles o WHERE o.oid <> g.oid AND pg_has_role(g.oid, o.oid, 'USAGE') ORDER BY 1) AS has
  FROM pg_roles g
 WHERE g.rolname = ANY ($1::text[]) AND NOT g.rolsuper
   AND (g.rolcanlogin OR EXISTS (SELECT FROM pg_auth_members m WHERE m.roleid = g.oid))
 ORDER BY 1`;

const DEFAULTS = `
SELECT pg_get_userbyid(d.defaclrole)::text AS creator, n.nspname::text AS schema,
       CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END AS role,
       array_agg(a.privilege_type::text ORDER BY a.privilege_type) AS privileges
  FROM pg_default_acl d LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace CROSS JOIN aclexplode(d.defaclacl) a
 WHERE d.defaclobjtype = 'r' AND a.grantee <> d.defaclrole
 GROUP BY 1, 2, a.grantee ORDER BY 1, 2, 3`;

/** Reads what roles may do with the relations of each schema, and with those that will be made there. */
export async function readAccess(session: Session): Promise<ProfiledAccess> {
  const schemas = await session.query<ProfiledAccess['schemas'][number]>(SCHEMAS);
  const granted = new Set(schemas.flatMap((each) => each.granted.map(({ role }) => role)));
  return {
    schemas: [...schemas],
    roles: [...(await session.query<ProfiledAccess['roles'][number]>(ROLES, [[...granted]]))],
    defaults: [...(await session.query<ProfiledAccess['defaults'][number]>(DEFAULTS))],
  };
}

/** Below it, plans cost next to nothing, and most of the relations of a database with many are that small. */
const FROM_PAGES = 8;

// Sizes and rows of the same moment, as the planner takes them.
const PLANNED_RELATIONS = `
SELECT n.nspname AS schema, c.relname AS name, c.relpages AS pages, c.relallvisible AS visible,
       (SELECT coalesce(json_agg(json_build_object('index', x.relname, 'pages', x.relpages, 'rows', x.reltuples)
                                 ORDER BY x.relname), '[]')
          FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
         WHERE i.indrelid = c.oid AND x.reltuples >= 0) AS indexes,
       EXISTS (SELECT FROM pg_attribute a
                WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                  AND (c.relrowsecurity AND row_security_active(c.oid)
                       OR NOT has_column_privilege(c.oid, a.attnum, 'SELECT'))) AS hidden
  FROM ${RELATIONS_AND_SCHEMAS}
 WHERE ${HAS_FILES} AND c.reltuples > 0 AND c.relpages >= $1
   AND ${USER_SCHEMA}`;

// Has no row for columns that the role may not read. Not joined to the relations: the planner has no idea how many it returns.
const PLANNED_COLUMNS = `
SELECT s.schemaname AS schema, s.tablename AS name,
       json_agg(json_build_object('column', s.attname, 'nullFraction', s.null_frac, 'width', s.avg_width,
                                  'distinct', s.n_distinct, 'correlation', s.correlation) ORDER BY s.attname) AS columns
  FROM pg_stats s
 WHERE NOT s.inherited AND ${userSchema('s.schemaname')}
 GROUP BY 1, 2`;

type Named = { schema: string; name: string };
type PlannedRow = Named &
  Pick<PlannerStatistics, 'indexes'> & { pages: number; visible: number; hidden: boolean };

/**
 * Reads what the planner of the session's database knows of its tables, except values, by the relation's name.
 * @returns `hidden`: relations that have columns whose statistics the role may not read.
 */
export async function readPlannerStatistics(
  session: Session,
): Promise<{ readonly relations: ReadonlyMap<string, PlannerStatistics>; readonly hidden: number }> {
  const rows = await session.query<PlannedRow>(PLANNED_RELATIONS, [FROM_PAGES]);
  const analyzed = await session.query<Named & Pick<PlannerStatistics, 'columns'>>(PLANNED_COLUMNS);
  const columns = new Map(analyzed.map((each) => [displayName(each.schema, each.name), each.columns]));
  const relations = new Map<string, PlannerStatistics>();
  for (const { schema, name, pages, visible, indexes, hidden } of rows) {
    const relation = displayName(schema, name);
    const own = columns.get(relation);
    if (hidden || !own) continue;
    relations.set(relation, {
      pages,
      visiblePages: visible,
      indexes: indexes.map((each) => ({ ...each, index: displayName(each.index) })),
      columns: own.map((each) => ({ ...each, column: displayName(each.column) })),
    });
  }
  return { relations, hidden: rows.filter(({ hidden }) => hidden).length };
}

/** A relation of a profile without its rates. */
type SizedRelation = Pick<
  ProfiledRelation,
  'relation' | 'kind' | 'sizeBytes' | 'indexBytes' | 'rows' | 'owner' | 'grants'
>;

// pg_relation_size() takes ACCESS SHARE on each relation, so that it waits for a migration that is running.
const SIZES_NOW = {
  heap: `pg_relation_size(c.oid) + CASE c.reltoastrelid WHEN 0 THEN 0 ELSE pg_relation_size(c.reltoastrelid) END`,
  indexes: 'pg_indexes_size(c.oid)',
};
const AT_LAST_VACUUM = {
  heap: `(c.relpages + coalesce((SELECT t.relpages FROM pg_class t WHERE t.oid = c.reltoastrelid), 0))::int8
           * current_setting('block_size')::int8`,
  indexes: `(SELECT coalesce(sum(x.relpages), 0) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
              WHERE i.indrelid = c.oid)::int8 * current_setting('block_size')::int8`,
};

const relationsSql = ({ heap, indexes }: typeof SIZES_NOW) => `
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

type SizedRow = Named &
  Pick<SizedRelation, 'rows' | 'owner' | 'grants'> & {
    kind: 'r' | 'p' | 'm';
    parentSchema: string | null;
    parent: string | null;
    heap: number | null;
    indexes: number | null;
  };

const LOCK_NOT_AVAILABLE = '55P03';

/**
 * Reads the sizes of all tables and materialized views of the session's database, their estimated rows and their grants, from the
 * catalogues alone. @returns `isLate`: sizes are those at the last VACUUM or ANALYZE, because a relation was locked.
 */
export async function readRelationSizes(
  session: Session,
): Promise<{ readonly relations: readonly SizedRelation[]; readonly isLate: boolean }> {
  try {
    return { relations: withSums(await session.query<SizedRow>(relationsSql(SIZES_NOW))), isLate: false };
  } catch (error) {
    if (sqlstateOf(error) !== LOCK_NOT_AVAILABLE) throw error;
    const rows = await session.query<SizedRow>(relationsSql(AT_LAST_VACUUM));
    return { relations: withSums(rows), isLate: true };
  }
}

const KINDS = { r: 'table', p: 'partitioned table', m: 'materialized view' } as const;

/** A partitioned table has no file of its own: it gets the sums of its partitions. */
function withSums(rows: readonly SizedRow[]): SizedRelation[] {
  const partitions = new Map<string, SizedRow[]>();
  for (const row of rows) {
    if (row.parent === null || row.parentSchema === null) continue;
    const parent = displayName(row.parentSchema, row.parent);
    partitions.set(parent, [...(partitions.get(parent) ?? []), row]);
  }
  const sumOf = (row: SizedRow, figure: 'heap' | 'indexes' | 'rows'): number | null =>
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
