import type { DataSection, SchemaSection } from '../model/report.ts';
import type { Session } from '../postgres/connection/session.ts';
import { ifAnswered } from '../postgres/session-helpers.ts';
import { displayName, identifier, nameParts } from '../postgres/sql/quote.ts';
import { type ComparedRow, pagesOf, readTables, rowsByKey, sampleOf } from './row-values.ts';

type Copy = NonNullable<DataSection['lost'][number]['copy']>;

const BUDGET_MS = 2_000;
/** Values that are looked up at most. */
const MOST_VALUES = 2_000;

/** A column of a table that the command made, under the name of a dropped one. */
const NAMED_ALIKE = `
SELECT n.nspname::text AS schema, c.relname::text AS "table", a.attname::text AS "column"
  FROM unnest($1::text[], $2::text[]) AS w(schema, name)
  JOIN pg_namespace n ON n.nspname = w.schema
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p')
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = $3 AND a.attnum > 0 AND NOT a.attisdropped`;

const hashOf = (column: string) => `hashtextextended(${column}::text COLLATE "C", 0)`;

/**
 * Looks for copies of dropped columns that lack some of the values: a column of the same name in a new table, or a new column of the same
 * table that is NULL in some rows. Values of some pages are looked up; columns of which less than half are found are no copies.
 * @param objects dropped columns with values: `public.orders.note`.
 */
export async function incompleteCopies(
  target: Session,
  clone: Session,
  objects: readonly string[],
  { changes }: Pick<SchemaSection, 'changes'>,
): Promise<Map<string, Copy>> {
  const deadline = performance.now() + BUDGET_MS;
  const made = (wanted: string) =>
    changes
      .filter(({ verb, kind }) => verb === 'create' && kind === wanted)
      .map(({ object }) => nameParts(object));
  const found = new Map<string, Copy>();
  for (const object of objects) {
    if (performance.now() >= deadline) break;
    const [schema = '', table = '', column = ''] = nameParts(object);
    const added = made('column').filter((parts) => parts[0] === schema && parts[1] === table);
    const copy =
      (await ifAnswered(() => inNewTable(target, clone, { schema, table, column }, made('table')))) ??
      (await ifAnswered(() => besideIt(target, clone, { schema, table, column }, added)));
    if (copy) found.set(object, copy);
  }
  return found;
}

interface Dropped {
  readonly schema: string;
  readonly table: string;
  readonly column: string;
}

async function inNewTable(
  target: Session,
  clone: Session,
  { schema, table, column }: Dropped,
  tables: readonly string[][],
): Promise<Copy | undefined> {
  if (tables.length === 0) return undefined;
  const alike = await clone.query<Dropped & object>(NAMED_ALIKE, [
    tables.map(([first]) => first),
    tables.map(([, name]) => name),
    column,
  ]);
  const [before] = alike.length === 0 ? [] : await readTables(target, [displayName(schema, table)]);
  if (!before?.readable || before.types?.[column] === undefined) return undefined;
  const values = await target.query<{ hash: string }>(
    `SELECT DISTINCT hash::text FROM (${pagesOf(before, `${hashOf(identifier(column))} AS hash`, `${identifier(column)} IS NOT NULL`)}) s LIMIT ${MOST_VALUES}`,
  );
  for (const copy of alike) {
    const [row] = await clone.query<{ found: number }>(
      `SELECT count(DISTINCT ${hashOf(identifier(copy.column))})::float8 AS found
         FROM ${identifier(copy.schema)}.${identifier(copy.table)} WHERE ${hashOf(identifier(copy.column))} = ANY ($1::int8[])`,
      [values.map(({ hash }) => hash)],
    );
    const name = displayName(copy.schema, copy.table, copy.column);
    const incomplete = copyOf(name, values.length, values.length - (row?.found ?? 0));
    if (incomplete) return incomplete;
  }
  return undefined;
}

async function besideIt(
  target: Session,
  clone: Session,
  { schema, table, column }: Dropped,
  added: readonly string[][],
): Promise<Copy | undefined> {
  if (added.length === 0) return undefined;
  const relation = displayName(schema, table);
  const [[before], [after]] = [await readTables(target, [relation]), await readTables(clone, [relation])];
  const from = before?.types?.[column];
  if (!before?.readable || !after || from === undefined || before.key.length === 0) return undefined;
  const { key } = before;
  const columns = added.map((parts) => ({ name: parts.at(-1) ?? '', type: 'text' }));
  const then = (
    await target.query<ComparedRow & object>(
      sampleOf({ table: before, key, columns: [{ name: column, type: from }] }),
    )
  ).filter(({ values: [value] }) => value !== null);
  const now = await rowsByKey(clone, { table: after, key, columns }, then);
  for (const [at, { name }] of columns.entries()) {
    const missing = now.filter(({ values }) => values[at] == null).length;
    const incomplete = copyOf(displayName(schema, table, name), now.length, missing);
    if (incomplete) return incomplete;
  }
  return undefined;
}

function copyOf(column: string, values: number, missing: number): Copy | undefined {
  return missing > 0 && missing * 2 <= values ? { column, values, missing } : undefined;
}
