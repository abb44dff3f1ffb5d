import { messageOf } from '../errors.ts';
import { readStatStatements } from '../observe/checks/query-source.ts';
import { RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { LockMode } from '../postgres/lock-modes.ts';
import { isDml, isQuery } from '../postgres/sql/classify-statement.ts';
import { parseText } from '../postgres/sql/parse.ts';
import { type Node, nameOf, nodesWithin } from '../postgres/sql/tree.ts';
import type { CalledStatement } from './shapes.ts';

/** Calls of the statements of pg_stat_statements by their texts, or the reason why they cannot be read. */
type StatementCounts = ReadonlyMap<string, number> | { readonly unreadable: string };

/** Reads how often the statements of the session's database have been called. */
export async function readStatementCounts(session: Session): Promise<StatementCounts> {
  try {
    const [row] = await session.query<{ oid: string }>(
      'SELECT oid::int8 AS oid FROM pg_database WHERE datname = current_database()',
    );
    const read = await readStatStatements(session, Number(row?.oid));
    return 'unreadable' in read ? read : new Map(read.queries.map(({ sql, calls }) => [sql, calls ?? 0]));
  } catch (error) {
    return { unreadable: messageOf(error) };
  }
}

// Views are expanded into the tables that they read. Which schema an unqualified name means depends on settings of the application's
// sessions: public comes first.
const TABLES = `
WITH RECURSIVE named AS (
  SELECT n.nspname AS schema, c.relname AS name, c.oid AS leaf, c.relkind AS kind
    FROM ${RELATIONS_AND_SCHEMAS}
   WHERE c.relname = ANY ($1::text[]) AND c.relkind IN ('r', 'p', 'v') AND ${USER_SCHEMA}
  UNION
  SELECT named.schema, named.name, c.oid, c.relkind
    FROM named JOIN pg_rewrite r ON r.ev_class = named.leaf
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
    JOIN pg_class c ON c.oid = d.refobjid AND c.oid <> named.leaf AND c.relkind IN ('r', 'p', 'v')
   WHERE named.kind = 'v')
SELECT schema, name, array_agg(leaf::int8::text ORDER BY leaf) AS tables FROM named WHERE kind <> 'v'
 GROUP BY schema, name ORDER BY schema <> 'public', schema`;

/** Returns the statements that were called between two readings, with the tables that they lock. @param windowMs between the readings. */
export async function calledBetween(
  session: Session,
  first: StatementCounts,
  last: StatementCounts,
  windowMs: number,
): Promise<CalledStatement[]> {
  if ('unreadable' in first || 'unreadable' in last) return [];
  const called = [...last].flatMap(([sql, calls]) => {
    const more = calls - (first.get(sql) ?? 0);
    return more > 0 ? [{ sql, perSecond: (more * 1000) / windowMs }] : [];
  });
  const parsed = await Promise.all(
    called.map(async ({ sql, perSecond }) => ({ perSecond, locks: await locksOf(sql) })),
  );
  const names = [...new Set(parsed.flatMap(({ locks }) => locks.map(({ name }) => name)))];
  const rows = await session.query<{ schema: string; name: string; tables: string[] }>(TABLES, [names]);
  return parsed.flatMap(({ perSecond, locks }) => {
    const found = new Map<number, LockMode>();
    for (const { schema, name, mode } of locks) {
      const row = rows.find((each) => each.name === name && (schema === null || each.schema === schema));
      for (const table of row?.tables ?? []) if (!found.has(Number(table))) found.set(Number(table), mode);
    }
    return found.size > 0 ? [{ locks: found, perSecond }] : [];
  });
}

async function locksOf(sql: string) {
  const [statement] = (await parseText(Buffer.from(sql))) ?? [];
  return statement && (isDml(statement.node) || isQuery(statement.node)) ? locksOfTree(statement.node) : [];
}

/** Tables that are written come first: theirs is the stronger lock if they are read as well. */
function locksOfTree(node: Node) {
  const written = [
    ...nodesWithin(node, 'InsertStmt'),
    ...nodesWithin(node, 'UpdateStmt'),
    ...nodesWithin(node, 'DeleteStmt'),
    ...nodesWithin(node, 'MergeStmt'),
  ].map(({ relation }) => ({ ...nameOf(relation), mode: 'ROW EXCLUSIVE' as const }));
  const mode: LockMode = nodesWithin(node, 'LockingClause').length > 0 ? 'ROW SHARE' : 'ACCESS SHARE';
  const defined = new Set(nodesWithin(node, 'CommonTableExpr').map(({ ctename }) => ctename));
  const read = nodesWithin(node, 'RangeVar')
    .map(nameOf)
    .filter(({ schema, name }) => schema !== null || !defined.has(name));
  return [...written, ...read.map((each) => ({ ...each, mode }))];
}
