import type { Unanalyzed } from '../../model/effect-facts.ts';
import type { SchemaSection } from '../../model/report.ts';
import { HAS_FILES } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, nameParts } from '../../postgres/sql/quote.ts';

/**
 * Lists what may lack statistics: columns of another type, new columns whose value the command stores in each row, and new indexes. An
 * UPDATE is not among it: it makes autovacuum analyze the table, which ALTER TABLE and CREATE INDEX do not.
 * @returns names after the command: `public.orders.total`, `public.orders_lower_idx`; null: there are none.
 */
export function mayLackStatistics({ changes, renames }: SchemaSection) {
  const nameAfter = (object: string) => {
    const itself = renames.find(({ from }) => from === object);
    const table = renames.find(({ from }) => object.startsWith(`${from}.`));
    return itself?.to ?? (table ? table.to + object.slice(table.from.length) : object);
  };
  const columns = changes
    .filter(
      ({ verb, kind, sql }) =>
        kind === 'column' &&
        ((verb === 'alter' && / TYPE /.test(sql)) ||
          (verb === 'create' && / DEFAULT | GENERATED ALWAYS AS \(.* STORED/s.test(sql))),
    )
    .map(({ object }) => nameAfter(object));
  const indexes = changes
    .filter(({ verb, kind, sql }) => verb === 'create' && kind === 'index' && /\(.*\(/s.test(sql))
    .map(({ object }) => object);
  return columns.length + indexes.length === 0 ? null : { columns, indexes };
}

// pg_stats shows only columns that the role may read, and nothing under row-level security. OFFSET 0 keeps the server from reading all of that view.
const COLUMNS = `
select n.nspname as schema, c.relname as table, a.attname as column
from pg_catalog.pg_attribute a
join pg_catalog.pg_class c on c.oid = a.attrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where ${HAS_FILES} and a.attnum > 0 and not a.attisdropped and c.relname = any ($1) and a.attname = any ($2)
  and pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT') and not pg_catalog.row_security_active(c.oid)
  and (exists (select from pg_catalog.pg_index i where i.indrelid = c.oid and a.attnum = any (i.indkey))
    or exists (select from pg_catalog.pg_constraint k where k.contype = 'f'
      and (k.conrelid = c.oid and a.attnum = any (k.conkey) or k.confrelid = c.oid and a.attnum = any (k.confkey))))
  and not exists (select from pg_catalog.pg_stats s
    where s.schemaname = n.nspname and s.tablename = c.relname and s.attname = a.attname offset 0)`;

const INDEXES = `
select n.nspname as schema, c.relname as table, x.relname as index
from pg_catalog.pg_index i
join pg_catalog.pg_class x on x.oid = i.indexrelid
join pg_catalog.pg_class c on c.oid = i.indrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where x.relkind = 'i' and i.indexprs is not null and i.indisvalid and x.relname = any ($1)
  and pg_catalog.has_table_privilege(c.oid, 'SELECT') and not pg_catalog.row_security_active(c.oid)
  and not exists (select from pg_catalog.pg_stats s where s.schemaname = n.nspname and s.tablename = x.relname offset 0)`;

interface Lacking extends Record<string, unknown> {
  readonly schema: string;
  readonly table: string;
  readonly column?: string;
  readonly index?: string;
}

/** Finds those that are used by an index or a foreign key, or are one, and have no statistics. */
export async function unanalyzed(
  session: Session,
  { columns, indexes }: NonNullable<ReturnType<typeof mayLackStatistics>>,
): Promise<Unanalyzed[]> {
  const parts = (objects: readonly string[], at: number) =>
    objects.map((object) => nameParts(object).at(at) ?? '');
  const lacking = [
    ...(columns.length === 0
      ? []
      : await session.query<Lacking>(COLUMNS, [parts(columns, -2), parts(columns, -1)])),
    ...(indexes.length === 0 ? [] : await session.query<Lacking>(INDEXES, [parts(indexes, -1)])),
  ];
  return lacking
    .map(({ schema, table, column, index }) => ({
      relation: displayName(schema, table),
      column: column === undefined ? null : displayName(column),
      index: index === undefined ? null : displayName(schema, index),
    }))
    .filter(({ relation, column, index }) =>
      index === null ? columns.includes(`${relation}.${column}`) : indexes.includes(index),
    );
}
