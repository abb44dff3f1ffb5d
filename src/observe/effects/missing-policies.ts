import type { UnfilteredTable } from '../../model/effect-facts.ts';
import { IS_TABLE, ofExtension, RELATIONS_AND_SCHEMAS } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, nameParts } from '../../postgres/sql/quote.ts';
import { LET_THROUGH, USES, USING_ROLES } from './access-definitions.ts';

/** Fewer tables show no custom of the schema. */
const ENOUGH_TABLES = 2;

/** The own columns that the conditions of policies use, with the roles that the policies are for. */
const USED = `
  select p.polrelid, a.attname, p.polroles from pg_catalog.pg_policy p
  join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass and d.objid = p.oid
    and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid = p.polrelid
  join pg_catalog.pg_attribute a on a.attrelid = p.polrelid and a.attnum = d.refobjsubid and a.attnum > 0`;

/** Tells if column `a` is the primary key of table `t` and no foreign key: then it does not say who owns a row. */
const IS_OWN_KEY = `
  exists (select from pg_catalog.pg_constraint k where k.conrelid = t.oid and k.contype = 'p' and k.conkey = array[a.attnum])
  and not exists (select from pg_catalog.pg_constraint k where k.conrelid = t.oid and k.contype = 'f' and a.attnum = any (k.conkey))`;

/** Tells if role `r` may read table `t`, and is neither its owner nor a member of that. */
const READS = `pg_catalog.has_any_column_privilege(r.oid, t.oid, 'SELECT') and not pg_catalog.pg_has_role(r.oid, t.relowner, 'USAGE')`;

const UNFILTERED = `
with used as materialized (${USED}), tables as materialized (
  select c.oid, n.nspname, c.relname, c.relnamespace, c.relowner, c.relrowsecurity, n.nspname || '.' || c.relname = any ($1) as is_new
  from ${RELATIONS_AND_SCHEMAS}
  where ${IS_TABLE} and n.nspname = any ($2) and not exists (select from pg_catalog.pg_inherits h where h.inhrelid = c.oid)
    and not ${ofExtension('pg_class', 'c.oid')}
), made as (
  select t.oid, t.nspname, t.relname, t.relnamespace, r.oid as role, r.rolname, a.attname
  from tables t join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attname in (select u.attname from used u)
  join (${USING_ROLES}) r on ${READS}
  join pg_catalog.pg_roles o on o.oid = r.oid and not o.rolbypassrls and not o.rolreplication
  where t.is_new and not t.relrowsecurity and not (${IS_OWN_KEY})
), others as (
  select m.oid, m.nspname, m.relname, m.rolname, m.attname, t.nspname as schema, t.relname as table, t.relrowsecurity,
    t.relrowsecurity and not (${LET_THROUGH})
      and exists (select from used p where p.polrelid = t.oid and p.attname = m.attname
        and exists (select from pg_catalog.unnest(p.polroles) q (oid) where q.oid = 0 or pg_catalog.pg_has_role(r.oid, q.oid, 'USAGE'))) as is_kept
  from made m cross join lateral (select m.role as oid) r
  join tables t on t.relnamespace = m.relnamespace and not t.is_new and ${READS}
  join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attname = m.attname
  join ${USES} on u.privilege = 'SELECT'
)
select o.nspname::pg_catalog.text as schema, o.relname::pg_catalog.text as name, o.rolname::pg_catalog.text as role,
  o.attname::pg_catalog.text as column,
  pg_catalog.json_agg(pg_catalog.json_build_array(o.schema, o.table) order by o.table) filter (where o.is_kept) as tables
from others o
group by o.oid, 1, 2, 3, 4
having pg_catalog.bool_and(o.relrowsecurity) and pg_catalog.count(*) filter (where o.is_kept) >= ${ENOUGH_TABLES}
  and pg_catalog.count(*) filter (where o.is_kept) * 2 >= pg_catalog.count(*)
order by 1, 2, pg_catalog.count(*) desc, 4, 3`;

interface Row {
  readonly schema: string;
  readonly name: string;
  readonly role: string;
  readonly column: string;
  readonly tables: readonly (readonly [schema: string, name: string])[];
}

/**
 * Finds new tables without row security that a role may read, and that have a column which policies of other tables use to hide rows from
 * that role.
 * @param made names of new tables: `public.orders`.
 */
export async function unfilteredTables(
  session: Session,
  made: readonly string[],
): Promise<UnfilteredTable[]> {
  if (made.length === 0) return [];
  const parts = made.map(nameParts);
  const names = [parts.map((part) => part.join('.')), parts.map(([schema = '']) => schema)];
  const rows = await session.query<Row>(UNFILTERED, names);
  return rows.map(({ schema, name, tables, ...rest }) => ({
    ...rest,
    relation: displayName(schema, name),
    tables: tables.map((table) => displayName(...table)),
  }));
}
