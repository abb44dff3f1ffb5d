import path from 'node:path';
import type * as Tree from 'libpg-query';
import { isBookkeeping } from '../../model/migration-tables.ts';
import { fieldsIf } from '../../postgres/sql/classify-statement.ts';
import { constantOf, itemsOf, type Node, nodesWithin, walkTree } from '../../postgres/sql/tree.ts';
import type { KeptStatement } from '../kept-statements.ts';
import type { ToolFormat } from './proposal-format.ts';
import type { RecordedMigration } from './safer-migration.ts';

/** Where a tool records the name of a migration. */
const RECORDS: Readonly<Record<ToolFormat, readonly [table: string, column: string]>> = {
  prisma: ['_prisma_migrations', 'migration_name'],
  knex: ['knex_migrations', 'name'],
  'node-pg-migrate': ['pgmigrations', 'name'],
  flyway: ['flyway_schema_history', 'script'],
  alembic: ['alembic_version', 'version_num'],
  django: ['django_migrations', 'name'],
  rails: ['schema_migrations', 'version'],
};

/** @throws Error in words for the user if the command did not apply exactly one migration of this tool */
export function recordedMigration(
  statements: readonly KeptStatement[],
  format: ToolFormat,
): RecordedMigration {
  const [table, column] = RECORDS[format];
  const found = statements.flatMap(({ subject: { node } }) => recordIn(node, table, column));
  const [only] = found;
  if (!only)
    throw new Error(
      `the command recorded no migration in ${table}, as ${format} does: leave out --propose-format`,
    );
  if (found.length > 1)
    throw new Error(
      `the command applied ${found.length} migrations (${found.map(({ name }) => name).join(', ')}), and a file of ${format} takes the place of one: leave out --propose-format`,
    );
  const name = path.posix.basename(only.name);
  if (!/^\w[\w.@+ -]*$/.test(name))
    throw new Error(`the migration has a name that is none for a file: ${name}`);
  return { ...only, name };
}

/** The statement is about the tables alone in which migration tools record what they did. */
export function isOfTool({ subject: { node } }: KeptStatement): boolean {
  const names: string[] = [];
  walkTree(node, (key, fields) => {
    if ((key === 'RangeVar' || key === 'relation') && 'relname' in fields) names.push(String(fields.relname));
  });
  return names.length > 0 && names.every(isBookkeeping);
}

function recordIn(node: Node, table: string, column: string): RecordedMigration[] {
  const insert = fieldsIf(node, 'InsertStmt');
  if (insert?.relation?.relname === table) {
    const at = itemsOf<Tree.ResTarget>(insert.cols, 'ResTarget').findIndex(({ name }) => name === column);
    return nodesWithin(insert.selectStmt, 'List').flatMap(({ items }) => named(textOf(items?.[at]), null));
  }
  const update = fieldsIf(node, 'UpdateStmt');
  if (update?.relation?.relname !== table) return [];
  const set = itemsOf<Tree.ResTarget>(update.targetList, 'ResTarget').find(({ name }) => name === column);
  const [condition] = nodesWithin([update.whereClause], 'A_Expr');
  return named(textOf(set?.val), textOf(condition?.rexpr) ?? null);
}

function named(name: string | undefined, previous: string | null): RecordedMigration[] {
  return name === undefined ? [] : [{ name, previous }];
}

/** Of a constant, also one with a cast. */
function textOf(node: Tree.Node | undefined): string | undefined {
  return node && 'TypeCast' in node ? textOf(node.TypeCast.arg) : constantOf(node);
}
