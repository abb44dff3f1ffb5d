import type * as Tree from 'libpg-query';
import { parseText } from '../../postgres/sql/parse.ts';
import { itemsOf, nameOf, nodesWithin } from '../../postgres/sql/tree.ts';
import type { ApplicationQuery } from '../checks/query-source.ts';

/** The columns that INSERTs of the running application give values for. */
export interface ApplicationInsert {
  /** null: the name is looked for in all schemas. */
  readonly schema: string | null;
  readonly table: string;
  /** null: the first `count` ones of the table. */
  readonly columns: readonly string[] | null;
  readonly count: number;
  /** Calls of all such statements together; null: not counted. */
  readonly callsPerSecond: number | null;
}

/** Reads the INSERTs among the queries. Those with the same columns become one; the most often called come first, as the queries do. */
export async function applicationInserts(queries: readonly ApplicationQuery[]): Promise<ApplicationInsert[]> {
  const found = new Map<string, ApplicationInsert>();
  for (const { sql, callsPerSecond } of queries) {
    if (!/\binsert\b/i.test(sql)) continue;
    const [statement] = (await parseText(Buffer.from(sql))) ?? [];
    for (const insert of statement ? nodesWithin(statement.node, 'InsertStmt') : []) {
      const given = givenBy(insert);
      if (!given) continue;
      const key = JSON.stringify(given);
      const known = found.get(key);
      const rates = [callsPerSecond, known ? known.callsPerSecond : 0];
      const sum = rates.every((rate) => rate !== null) ? rates.reduce((a, b) => a + b, 0) : null;
      found.set(key, { ...given, callsPerSecond: sum });
    }
  }
  return [...found.values()];
}

/** Returns undefined if the number of values is not known, or if there are none. */
function givenBy({
  relation,
  cols,
  selectStmt,
}: Tree.InsertStmt): Omit<ApplicationInsert, 'callsPerSecond'> | undefined {
  const { schema, name: table } = nameOf(relation);
  const named = itemsOf<Tree.ResTarget>(cols, 'ResTarget').map(({ name }) => name ?? '');
  if (named.length > 0) return { schema, table, columns: named.toSorted(), count: named.length };
  const select = selectStmt && 'SelectStmt' in selectStmt ? selectStmt.SelectStmt : undefined;
  const [row] = itemsOf<Tree.List>(select?.valuesLists, 'List');
  const count = row?.items?.length ?? 0;
  return count > 0 ? { schema, table, columns: null, count } : undefined;
}
