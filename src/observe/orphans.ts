import { sqlstateOf } from '../errors.ts';
import type { OrphanFacts } from '../model/hazard-facts.ts';
import type { DataSection } from '../model/report.ts';
import type { StatementFacts } from '../model/statement-actions.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName, identifier } from '../postgres/sql/quote.ts';

interface ForeignKey {
  readonly schema: string;
  readonly table: string;
  readonly constraint: string;
  readonly only: boolean;
  readonly columns: readonly string[];
  readonly parentSchema: string;
  readonly parent: string;
  readonly keys: readonly string[];
}

// NOT VALID keys promise nothing of their rows.
const FOREIGN_KEYS = `
select n.nspname as schema, c.relname as table, k.conname as constraint, c.relkind = 'r' as only,
  pn.nspname as "parentSchema", p.relname as parent,
  array(select a.attname::pg_catalog.text from pg_catalog.unnest(k.conkey) with ordinality u(num, at)
    join pg_catalog.pg_attribute a on a.attrelid = k.conrelid and a.attnum = u.num order by u.at) as columns,
  array(select a.attname::pg_catalog.text from pg_catalog.unnest(k.confkey) with ordinality u(num, at)
    join pg_catalog.pg_attribute a on a.attrelid = k.confrelid and a.attnum = u.num order by u.at) as keys
from pg_catalog.pg_constraint k
join pg_catalog.pg_class c on c.oid = k.conrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_class p on p.oid = k.confrelid
join pg_catalog.pg_namespace pn on pn.oid = p.relnamespace
where k.contype = 'f' and k.convalidated and k.conparentid = 0
  and pg_catalog.to_jsonb(k) -> 'conperiod' is distinct from 'true'::pg_catalog.jsonb
  and exists (select from pg_catalog.unnest($1::pg_catalog.text[]) w(name)
    where pg_catalog.to_regclass(w.name) in (k.conrelid, k.confrelid))`;

/**
 * Lists the written tables if foreign keys may not have been checked: the command disabled their triggers, or all triggers of its
 * session (session_replication_role). Empty if it did neither.
 */
export function writtenUnchecked(
  parsed: Iterable<StatementFacts>,
  data: Pick<DataSection, 'written'> | null,
): string[] {
  const off = [...parsed].some(({ actions }) =>
    actions.some(
      (action) => action.does === 'skip triggers' || (action.does === 'disable trigger' && action.system),
    ),
  );
  return off ? (data?.written ?? []).map(({ relation }) => relation) : [];
}

/** Counts the rows without a parent, of each valid foreign key from or to one of the tables; those without any are left out. */
export async function readOrphans(session: Session, tables: readonly string[]): Promise<OrphanFacts[]> {
  const found: OrphanFacts[] = [];
  for (const key of await session.query<ForeignKey>(FOREIGN_KEYS, [[...tables]])) {
    const rows = await countOrphans(session, key);
    if (rows === 0) continue;
    found.push({
      relation: displayName(key.schema, key.table),
      constraint: key.constraint,
      references: displayName(key.parentSchema, key.parent),
      rows,
    });
  }
  return found;
}

/** @returns null if it takes too long. */
async function countOrphans(session: Session, key: ForeignKey): Promise<number | null> {
  try {
    const [row] = await session.query<{ rows: number }>(orphansOf(key));
    return row?.rows ?? null;
  } catch (error) {
    if (sqlstateOf(error) === QUERY_CANCELED) return null;
    throw error;
  }
}

const QUERY_CANCELED = '57014';

function orphansOf({ schema, table, only, columns, parentSchema, parent, keys }: ForeignKey): string {
  const child = columns.map((column) => `c.${identifier(column)}`);
  const present = child.map((column) => `${column} IS NOT NULL`).join(' AND ');
  const equal = child.map((column, at) => `p.${identifier(keys[at] ?? '')} = ${column}`).join(' AND ');
  return `SELECT count(*)::float8 AS rows FROM ${only ? 'ONLY ' : ''}${identifier(schema)}.${identifier(table)} c
    WHERE ${present} AND NOT EXISTS (SELECT FROM ${identifier(parentSchema)}.${identifier(parent)} p WHERE ${equal})`;
}
