import { sqlstateOf } from '../errors.ts';
import { IS_TABLE } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName, identifier } from '../postgres/sql/quote.ts';
import { nameParts } from './name-parts.ts';

/** A column that exists again under the name of a dropped one, in a table with a primary key that the column is no part of. */
interface Again {
  readonly object: string;
  readonly schema: string;
  readonly table: string;
  readonly column: string;
  readonly key: readonly string[];
}

const AGAIN = `
SELECT w.object, n.nspname AS schema, c.relname AS table, a.attname AS column, k.columns AS key
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS w(object, schema, name, "column")
  JOIN pg_namespace n ON n.nspname = w.schema
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND ${IS_TABLE}
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = w."column" AND a.attnum > 0 AND NOT a.attisdropped
 CROSS JOIN LATERAL (
   SELECT array_agg(b.attname::text ORDER BY b.attnum) AS columns
     FROM pg_index i JOIN pg_attribute b ON b.attrelid = i.indrelid AND b.attnum = ANY (i.indkey)
    WHERE i.indrelid = c.oid AND i.indisprimary) k
 WHERE k.columns IS NOT NULL AND a.attname::text <> ALL (k.columns)`;

/**
 * Finds dropped columns whose name another column has now, with the same value as text in each row, by primary key.
 * @param target has the dropped columns still.
 * @param objects dropped columns of small tables: `public.orders.total`. Each table is read once on either side.
 * @returns those of them; a column that could not be compared is none.
 */
export async function copiedColumns(
  target: Session,
  clone: Session,
  objects: readonly string[],
): Promise<string[]> {
  const parts = objects.map(nameParts);
  const again = await clone.query<Again>(AGAIN, [
    [...objects],
    ...[0, 1, 2].map((index) => parts.map((each) => each[index] ?? '')),
  ]);
  const copied: string[] = [];
  for (const column of again) {
    const [then, now] = [await digestOf(target, column), await digestOf(clone, column)];
    if (then !== null && then === now) copied.push(displayName(column.schema, column.table, column.column));
  }
  return copied;
}

/** Whatever the order of the rows; null if it took too long, or the table was locked or has another key. */
async function digestOf(session: Session, { schema, table, column, key }: Again): Promise<string | null> {
  const row = [...key, column].map((name) => `quote_nullable(${identifier(name)}::text)`).join(', ');
  try {
    const [found] = await session.query<{ digest: string }>(
      `SELECT count(*) || ' ' || coalesce(sum(hashtextextended(concat_ws(',', ${row}), 0)), 0) AS digest
         FROM ${identifier(schema)}.${identifier(table)}`,
    );
    return found?.digest ?? null;
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    return null;
  }
}
