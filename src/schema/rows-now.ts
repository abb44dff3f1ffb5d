import { IS_TABLE, QUALIFIED_NAME, RELATIONS_AND_SCHEMAS } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { CatalogueIdentity } from './identity.ts';
import type { FactBase, Plan } from './pg-delta.ts';
import { fitToRows, type HasRows, type TableName } from './runnable.ts';

const READABLE = `select c.oid::pg_catalog.text as oid, ${QUALIFIED_NAME} as name
  from ${RELATIONS_AND_SCHEMAS}
  where c.oid = any ($1::pg_catalog.oid[]) and ${IS_TABLE} and not pg_catalog.row_security_active(c.oid)
    and pg_catalog.has_table_privilege(c.oid, 'SELECT') and pg_catalog.has_schema_privilege(n.oid, 'USAGE')`;

/**
 * Asks which tables have rows, if a way back depends on it. Tables that the role cannot read count as filled.
 * @param session null: the database is not to be asked, and all its tables count as filled.
 * @param now under the names of before; the session has the names of now.
 */
export async function tablesWithRows(
  session: Session | null,
  back: Plan,
  before: FactBase,
  now: CatalogueIdentity,
): Promise<HasRows> {
  const keys = keysByName(now);
  const keyOf = ({ schema, name }: TableName) => keys.get(JSON.stringify([schema, name]));
  const asked = new Set<string>();
  fitToRows(back, before, (table) => {
    const key = keyOf(table);
    if (key !== undefined) asked.add(key);
    return true;
  });
  const empty = session && asked.size > 0 ? await emptyAmong(session, asked) : new Set<string>();
  return (table) => {
    const key = keyOf(table);
    return key !== undefined && !empty.has(key);
  };
}

function keysByName(now: CatalogueIdentity): Map<string, string> {
  const keys = new Map<string, string>();
  for (const { key, kind, name, within } of now.values())
    if (kind === 'table') keys.set(JSON.stringify([now.get(within ?? '')?.name, name]), key);
  return keys;
}

async function emptyAmong(session: Session, keys: ReadonlySet<string>): Promise<Set<string>> {
  const oids = [...keys].map((key) => key.slice(key.indexOf(':') + 1));
  const empty = new Set<string>();
  for (const { oid, name } of await session.query<{ oid: string; name: string }>(READABLE, [oids])) {
    const [found] = await session.query<{ filled: boolean }>(`select exists (select from ${name}) as filled`);
    if (found?.filled === false) empty.add(`pg_class:${oid}`);
  }
  return empty;
}
