import type * as Tree from 'libpg-query';
import type { SchemaSection } from '../../model/report.ts';
import { IS_TABLE } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { parseText } from '../../postgres/sql/parse.ts';
import { displayName, nameParts } from '../../postgres/sql/quote.ts';
import { itemsOf, nameOf, nodesWithin } from '../../postgres/sql/tree.ts';

/** A write that the table refuses since the command: it does not name columns that must have a value, or violates a constraint. */
export interface RefusedWrite {
  /** `public.orders` */
  readonly relation: string;
  /** Columns without a value, or those of the constraint. */
  readonly columns: readonly string[];
  readonly constraint?: string;
}

/** Columns of a table that must have a value and get none by themselves: neither by a default nor, as far as is known, by a trigger. */
const REQUIRED = `
select n.nspname as schema, c.relname as table, a.attname as column,
  (select pg_catalog.count(*)::int from pg_catalog.pg_attribute b
    where b.attrelid = c.oid and b.attnum between 1 and a.attnum and not b.attisdropped) as place
from pg_catalog.pg_attribute a
join pg_catalog.pg_class c on c.oid = a.attrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_type t on t.oid = a.atttypid
where ${IS_TABLE} and a.attnum > 0 and not a.attisdropped and a.attname = any ($1)
  and a.attnotnull and not a.atthasdef and a.attidentity = '' and t.typdefault is null
  and not exists (select from pg_catalog.pg_trigger g
    where g.tgrelid = c.oid and not g.tgisinternal and g.tgenabled <> 'D' and (g.tgtype & 7) = 7)`;

interface Required {
  readonly schema: string;
  readonly table: string;
  readonly column: string;
  /** Its position among the columns of the table, from 1. */
  readonly place: number;
}

/** Columns that the command may have made required, by their names after the command: `public.orders.note`. */
export function maybeRequired({ changes }: SchemaSection): Set<string> {
  return new Set(
    changes
      .filter(
        ({ verb, kind, sql }) =>
          (kind === 'column' && verb === 'create' && / NOT NULL\b/.test(sql)) ||
          (kind === 'column' && verb === 'alter' && / SET NOT NULL$| DROP DEFAULT$/.test(sql)) ||
          (kind === 'column default' && verb === 'drop'),
      )
      .map(({ object }) => object),
  );
}

/** Decides by the columns that each INSERT names whether the table now refuses it; null: it does not. */
export async function refusedWrites(
  session: Session,
  queries: readonly string[],
  suspects: ReadonlySet<string>,
): Promise<(RefusedWrite | null)[]> {
  const names = [...suspects].map((object) => nameParts(object).at(-1));
  const rows = await session.query<Required>(REQUIRED, [names]);
  const required = rows.filter(({ schema, table, column }) =>
    suspects.has(displayName(schema, table, column)),
  );
  if (required.length === 0) return queries.map(() => null);
  return await Promise.all(queries.map((sql) => refusedWrite(sql, required)));
}

async function refusedWrite(sql: string, required: readonly Required[]): Promise<RefusedWrite | null> {
  if (!/\binsert\b/i.test(sql)) return null;
  const [statement] = (await parseText(Buffer.from(sql))) ?? [];
  for (const insert of statement ? nodesWithin(statement.node, 'InsertStmt') : []) {
    const { schema, name } = nameOf(insert.relation);
    const lacking = required.filter(
      (each) => each.table === name && (schema === null || each.schema === schema) && !gives(insert, each),
    );
    const [first] = lacking;
    if (!first) continue;
    const own = lacking.filter((each) => each.schema === first.schema);
    return {
      relation: displayName(first.schema, first.table),
      columns: own.map(({ column }) => displayName(column)),
    };
  }
  return null;
}

/** Without a list of columns, values go to the first columns; how many a SELECT has is not known. */
function gives({ cols, selectStmt }: Tree.InsertStmt, { column, place }: Required): boolean {
  const named = itemsOf<Tree.ResTarget>(cols, 'ResTarget').map(({ name }) => name);
  if (named.length > 0) return named.includes(column);
  if (!selectStmt) return false;
  const select = 'SelectStmt' in selectStmt ? selectStmt.SelectStmt : undefined;
  const [row] = itemsOf<Tree.List>(select?.valuesLists, 'List');
  return row === undefined || (row.items?.length ?? 0) >= place;
}
