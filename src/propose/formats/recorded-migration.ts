import path from 'node:path';
import type * as Tree from 'libpg-query';
import { historyTableOf, isBookkeeping } from '../../model/migration-tables.ts';
import { fieldsIf } from '../../postgres/sql/classify-statement.ts';
import { constantOf, itemsOf, type Node, nodesWithin, walkTree } from '../../postgres/sql/tree.ts';
import type { KeptStatement } from '../kept-statements.ts';

/** Where a tool records the name of a migration, or the time that its journal gives to one. */
const RECORDS = {
  prisma: [historyTableOf('Prisma'), 'migration_name'],
  drizzle: [historyTableOf('Drizzle'), 'created_at'],
  flyway: [historyTableOf('Flyway'), 'script'],
  alembic: [historyTableOf('Alembic'), 'version_num'],
  django: [historyTableOf('Django'), 'name'],
  rails: [historyTableOf('Rails'), 'version'],
} as const;

/** Tools in whose format a safer form can be written. */
export type ToolFormat = keyof typeof RECORDS;
export const TOOL_FORMATS = Object.keys(RECORDS) as ToolFormat[];

/** The migration of the command, by what its tool recorded. */
export interface RecordedMigration {
  readonly name: string;
  /** The one before it, for a tool that records that. */
  readonly previous: string | null;
}

/** Tools that record a migration before they run it; the others record it afterwards. */
const RECORDS_FIRST: ReadonlySet<ToolFormat> = new Set(['prisma']);

/**
 * Divides what the command sent into its migrations, by what the tool records of each.
 * @throws Error in words for the user if it applied no migration of this tool, or recorded several at once
 */
export function migrationsIn(statements: readonly KeptStatement[], format: ToolFormat) {
  const [table, column] = RECORDS[format];
  const migrations: { recorded: RecordedMigration; statements: KeptStatement[] }[] = [];
  const waiting: KeptStatement[] = [];
  for (const statement of statements) {
    const [recorded, ...more] = recordIn(statement.subject.node, table, column);
    if (more.length > 0)
      throw new Error(
        `the command recorded several migrations in one statement: leave out SAFEMIGRATE_PROPOSE_FORMAT`,
      );
    if (recorded) migrations.push({ recorded: named(recorded), statements: waiting.splice(0) });
    const current = RECORDS_FIRST.has(format) ? migrations.at(-1)?.statements : undefined;
    if (!isOfTool(statement)) (current ?? waiting).push(statement);
  }
  const last = migrations.at(-1);
  if (!last)
    throw new Error(
      `the command recorded no migration in ${table}, as ${format} does: leave out SAFEMIGRATE_PROPOSE_FORMAT`,
    );
  last.statements.push(...waiting);
  return migrations;
}

/** A migration of the command, and what its tool sent for it but for what it records about itself. */
export type MigrationStatements = ReturnType<typeof migrationsIn>[number];

/** @throws Error in words for the user if no file can have the name */
function named(recorded: RecordedMigration): RecordedMigration {
  const name = path.posix.basename(recorded.name);
  if (!/^\w[\w.@+ -]*$/.test(name))
    throw new Error(`the migration has a name that is none for a file: ${name}`);
  return { ...recorded, name };
}

/** The statement is about the tables alone in which migration tools record what they did. */
function isOfTool({ subject: { node } }: KeptStatement): boolean {
  const names: string[] = [];
  walkTree(node, (key, fields) => {
    if ((key === 'RangeVar' || key === 'relation') && 'relname' in fields) names.push(String(fields.relname));
  });
  return names.length > 0 && names.every(isBookkeeping);
}

/** A table in which a tool records its migrations: its columns for the name of one, and for the app that has it. */
interface History {
  readonly table: string;
  readonly column: string;
  readonly within: string | undefined;
}

/**
 * Reads the migrations that a statement records in a table.
 * @param values the parameters of the statement, as SQL.
 */
export function historyRecords(
  node: Node,
  { table, column, within }: History,
  values: readonly string[],
): { readonly name: string; readonly app: string | undefined }[] {
  const names = recordIn(node, table, column, values);
  const apps = within === undefined ? [] : recordIn(node, table, within, values);
  return names.map(({ name }, at) => ({ name, app: apps[at]?.name }));
}

function recordIn(
  node: Node,
  table: string,
  column: string,
  values: readonly string[] = [],
): RecordedMigration[] {
  const textOf = (value: Tree.Node | undefined) => textIn(value, values);
  const insert = fieldsIf(node, 'InsertStmt');
  if (insert?.relation?.relname === table) {
    const at = itemsOf<Tree.ResTarget>(insert.cols, 'ResTarget').findIndex(({ name }) => name === column);
    return nodesWithin(insert.selectStmt, 'List').flatMap(({ items }) => recordOf(textOf(items?.[at]), null));
  }
  const update = fieldsIf(node, 'UpdateStmt');
  if (update?.relation?.relname !== table) return [];
  const set = itemsOf<Tree.ResTarget>(update.targetList, 'ResTarget').find(({ name }) => name === column);
  const [condition] = nodesWithin([update.whereClause], 'A_Expr');
  return recordOf(textOf(set?.val), textOf(condition?.rexpr) ?? null);
}

function recordOf(name: string | undefined, previous: string | null): RecordedMigration[] {
  return name === undefined ? [] : [{ name, previous }];
}

/** Returns the text of a constant or of a parameter, also of one with a cast. */
function textIn(node: Tree.Node | undefined, values: readonly string[]): string | undefined {
  if (node && 'TypeCast' in node) return textIn(node.TypeCast.arg, values);
  if (!node || !('ParamRef' in node)) return constantOf(node);
  const value = values[(node.ParamRef.number ?? 0) - 1];
  return /^'((?:[^']|'')*)'/.exec(value ?? '')?.[1]?.replaceAll("''", "'");
}
