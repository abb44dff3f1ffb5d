import type { PlannerStatistics } from '../model/profile-model.ts';
import {
  HAS_FILES,
  RELATIONS_AND_SCHEMAS,
  USER_SCHEMA,
  userSchema,
} from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName } from '../postgres/sql/quote.ts';

/** Below it, plans cost next to nothing, and most of the relations of a database with many are that small. */
const FROM_PAGES = 8;

// Sizes and rows of the same moment, as the planner takes them.
const RELATIONS = `
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
const COLUMNS = `
SELECT s.schemaname AS schema, s.tablename AS name,
       json_agg(json_build_object('column', s.attname, 'nullFraction', s.null_frac, 'width', s.avg_width,
                                  'distinct', s.n_distinct, 'correlation', s.correlation) ORDER BY s.attname) AS columns
  FROM pg_stats s
 WHERE NOT s.inherited AND ${userSchema('s.schemaname')}
 GROUP BY 1, 2`;

interface RelationRow {
  schema: string;
  name: string;
  pages: number;
  visible: number;
  indexes: PlannerStatistics['indexes'];
  hidden: boolean;
}

type ColumnsRow = Pick<RelationRow, 'schema' | 'name'> & Pick<PlannerStatistics, 'columns'>;

/**
 * Reads what the planner of the session's database knows of its tables, except values, by the relation's name.
 * @returns `hidden`: relations that have columns whose statistics the role may not read.
 */
export async function readPlannerStatistics(
  session: Session,
): Promise<{ readonly relations: ReadonlyMap<string, PlannerStatistics>; readonly hidden: number }> {
  const rows = await session.query<RelationRow>(RELATIONS, [FROM_PAGES]);
  const analyzed = await session.query<ColumnsRow>(COLUMNS);
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
