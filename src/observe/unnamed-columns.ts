import type { SchemaSection, StatementSection } from '../model/report.ts';
import type { Session } from '../postgres/connection/session.ts';
import { beginsAsDml } from '../postgres/sql/classify-statement.ts';
import { normalizeSql } from '../postgres/sql/normalize.ts';
import { parseText } from '../postgres/sql/parse.ts';
import { displayName } from '../postgres/sql/quote.ts';
import { type Node, nodesWithin, strings } from '../postgres/sql/tree.ts';
import type { ParsedStatements } from './effects/already-there.ts';

/** Names in the UPDATE statements of a command. */
export interface NamedInUpdates {
  /** Tables that they name, without schemas. */
  readonly tables: ReadonlySet<string>;
  /** Columns that they set, of all tables. */
  readonly columns: ReadonlySet<string>;
  /** Relations that transactions with code that is not read have locked, so that it may have set any of their columns. */
  readonly hidden: ReadonlySet<string>;
}

/** Reads which columns the command sets by name; null: it ran code that is not read, and whose locks are not known. */
export async function namedInUpdates({
  statements,
  parsed,
}: ParsedStatements): Promise<NamedInUpdates | null> {
  const [tables, columns, hidden] = [new Set<string>(), new Set<string>(), new Set<string>()];
  const done = statements.filter(({ error }) => error === null);
  const effectOf = ({ index }: StatementSection) => parsed.get(index)?.effect ?? 'unknown';
  const unread = new Set(
    done.filter((each) => effectOf(each) === 'unknown').map(({ transaction }) => transaction),
  );
  for (const { transaction, locks } of done) {
    if (!unread.has(transaction)) continue;
    if (locks === null) return null;
    for (const { relation } of locks) hidden.add(relation);
  }
  const known = new Set<string>();
  for (const statement of done) {
    const { index, sql } = statement;
    const shape = normalizeSql(sql);
    if (effectOf(statement) !== 'rows' || !beginsAsDml(sql) || known.has(shape)) continue;
    known.add(shape);
    const nodes = ((await parseText(Buffer.from(sql))) ?? []).map(({ node }) => node);
    for (const { name } of nodesWithin(nodes, 'ResTarget')) if (name !== undefined) columns.add(name);
    if (isNoChange(nodes)) continue;
    for (const action of parsed.get(index)?.actions ?? [])
      if (action.does === 'update') tables.add(action.table.name);
  }
  return { tables, columns, hidden };
}

/** `SET a = a` only makes triggers run. */
function isNoChange(nodes: readonly Node[]): boolean {
  return nodesWithin(nodes, 'UpdateStmt').every(({ targetList = [] }) =>
    targetList.every((target) => {
      const { name, val } = 'ResTarget' in target ? target.ResTarget : {};
      return val !== undefined && 'ColumnRef' in val && strings(val.ColumnRef.fields).at(-1) === name;
    }),
  );
}

// BEFORE UPDATE for each row.
const TRIGGERS = `
SELECT t.tgname::text AS name, fn.nspname::text AS schema, f.proname::text AS "function" FROM pg_trigger t
  JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_proc f ON f.oid = t.tgfoid JOIN pg_namespace fn ON fn.oid = f.pronamespace
 WHERE n.nspname = $1 AND c.relname = $2 AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND t.tgtype & 19 = 19
 ORDER BY 1`;

/**
 * Returns the triggers of a table that may change rows before an UPDATE writes them; none if the command has changed one or its function:
 * then they may run on purpose.
 */
export async function changingTriggers(
  session: Session,
  { schema, name }: { readonly schema: string; readonly name: string },
  changes: SchemaSection['changes'],
): Promise<string[]> {
  const triggers = await session.query<{ name: string; schema: string; function: string }>(TRIGGERS, [
    schema,
    name,
  ]);
  const changed = changes.map(({ object }) => object);
  const own = `${displayName(schema, name)}.`;
  const isChanged = triggers.some((trigger) => {
    const code = `${displayName(trigger.schema, trigger.function)}(`;
    return changed.some((object) => object === own + displayName(trigger.name) || object.startsWith(code));
  });
  return isChanged ? [] : triggers.map((trigger) => trigger.name);
}
