import type * as Tree from 'libpg-query';
import type { Action, LockMode, Name, NamedLock } from '../../model/statement-actions.ts';
import { itemsOf, type Node, nameOf, nodesWithin, walkTree } from './tree.ts';

/** Returns the lock of a statement on a relation that it names; none if it names none. */
export function lockOn(
  range: Tree.RangeVar | undefined,
  mode: LockMode | undefined,
  more: Pick<NamedLock, 'ofTable' | 'ofIndexes'> = {},
): NamedLock[] {
  return range && mode ? [{ relation: nameOf(range), mode, ...more }] : [];
}

export function locksOn(ranges: Tree.Node[] | undefined, mode: LockMode | undefined): NamedLock[] {
  return itemsOf<Tree.RangeVar>(ranges, 'RangeVar').flatMap((range) => lockOn(range, mode));
}

/** Names the relations of a list. */
export function namesOfRanges(nodes: Tree.Node[] | undefined): Name[] {
  return itemsOf<Tree.RangeVar>(nodes, 'RangeVar').map(nameOf);
}

const WRITES: ReadonlySet<string> = new Set(['InsertStmt', 'UpdateStmt', 'DeleteStmt', 'MergeStmt']);

/** Returns the locks of what a query and the statements within it read, lock and write. */
export function locksOfQuery(node: Node): NamedLock[] {
  const found: NamedLock[] = [];
  const common = new Set(nodesWithin(node, 'CommonTableExpr').map(({ ctename }) => ctename));
  const clauses = new Set<object>(
    nodesWithin(node, 'LockingClause').flatMap(({ lockedRels }) =>
      itemsOf<Tree.RangeVar>(lockedRels, 'RangeVar'),
    ),
  );
  walkTree(node, (key, fields) => {
    if (WRITES.has(key)) found.push(...ofWrite(key, fields));
    if (key === 'RangeVar' && !clauses.has(fields))
      found.push(...lockOn(fields as Tree.RangeVar, 'ACCESS SHARE'));
    if (key === 'SelectStmt') found.push(...ofLockingClauses(fields as Tree.SelectStmt));
  });
  const rows = found.filter(({ mode }) => mode === 'ROW SHARE').map(({ relation }) => relation.name);
  return found.filter(
    ({ relation: { schema, name }, mode }) =>
      (schema !== null || !common.has(name)) && !(mode === 'ACCESS SHARE' && rows.includes(name)),
  );
}

/** The planner opens the indexes of rows that are to be changed; an INSERT lets go of them at its end. */
function ofWrite(kind: string, { relation }: { readonly relation?: Tree.RangeVar }): NamedLock[] {
  return lockOn(relation, 'ROW EXCLUSIVE', kind === 'InsertStmt' ? {} : { ofIndexes: 'ROW EXCLUSIVE' });
}

/** FOR UPDATE locks the tables of its FROM, or those that it names by their alias. */
function ofLockingClauses({ lockingClause, fromClause }: Tree.SelectStmt): NamedLock[] {
  return itemsOf<Tree.LockingClause>(lockingClause, 'LockingClause')
    .flatMap((clause) => lockedBy(clause, fromClause))
    .flatMap((range) => lockOn(range, 'ROW SHARE'));
}

/**
 * Names the tables whose rows a query locks: its own, as many as it returns, and those of a subselect or WITH that locks all of its
 * table, however few rows the query makes of them.
 */
export function rowLockActions(query: Tree.SelectStmt): Action[] {
  const own = lockOfRows(query, false);
  if (query.limitCount) return own;
  const inner = [
    ...nodesWithin(query.fromClause, 'RangeSubselect').map(({ subquery }) => subquery),
    ...nodesWithin(query.withClause, 'CommonTableExpr').map(({ ctequery }) => ctequery),
  ];
  const ofAll = itemsOf<Tree.SelectStmt>(
    inner.flatMap((each) => each ?? []),
    'SelectStmt',
  ).filter(({ whereClause, limitCount }) => !whereClause && !limitCount);
  return [...own, ...ofAll.flatMap((select) => lockOfRows(select, true))];
}

/**
 * Leaves out FOR KEY SHARE, which lets nearly all writes of the rows go on, and joins: their number of rows is not that of the rows
 * locked in any of their tables.
 */
function lockOfRows({ lockingClause, fromClause }: Tree.SelectStmt, all: boolean): Action[] {
  if (nodesWithin(fromClause, 'RangeVar').length > 1) return [];
  const tables = itemsOf<Tree.LockingClause>(lockingClause, 'LockingClause')
    .filter(({ strength }) => strength !== 'LCS_FORKEYSHARE')
    .flatMap((clause) => lockedBy(clause, fromClause))
    .map(nameOf);
  return tables.length > 0 ? [{ does: 'lock rows', tables, all }] : [];
}

function lockedBy({ lockedRels }: Tree.LockingClause, from: Tree.Node[] | undefined): Tree.RangeVar[] {
  const names = itemsOf<Tree.RangeVar>(lockedRels, 'RangeVar').map(({ relname }) => relname);
  return nodesWithin(from, 'RangeVar').filter(
    ({ alias, relname }) => names.length === 0 || names.includes(alias?.aliasname ?? relname),
  );
}
