import type * as Tree from 'libpg-query';
import { fieldsIf, isDml, isQuery } from './classify-statement.ts';
import { normalizeSql } from './normalize.ts';
import { itemsOf, type Node, nameOf } from './tree.ts';

/**
 * Returns what the statements have in common that take the same locks as a rule, so that in one transaction, where locks only grow,
 * those of a repetition need not be read at once: the normalised text of DML and queries, and what is done to which relation of
 * ALTER TABLE and CREATE INDEX. null for all other statements.
 */
export function lockKindOf(node: Node, sql: string): string | null {
  if (isDml(node) || isQuery(node)) return normalizeSql(sql);
  const altered = fieldsIf(node, 'AlterTableStmt');
  if (altered) {
    const commands = itemsOf<Tree.AlterTableCmd>(altered.cmds, 'AlterTableCmd');
    return `ALTER ${altered.objtype} ${relationOf(altered.relation)} ${commands.map(({ subtype }) => subtype).join(' ')}`;
  }
  const indexed = fieldsIf(node, 'IndexStmt');
  return indexed ? `CREATE INDEX ${relationOf(indexed.relation)}` : null;
}

function relationOf(range: Tree.RangeVar | undefined): string {
  const { schema, name } = nameOf(range);
  return JSON.stringify([schema, name]);
}
