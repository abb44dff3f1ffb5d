import { EXPECTED_GRANTS, type MissingGrant, type NewRelation } from '../../model/effect-facts.ts';
import type { SchemaSection } from '../../model/report.ts';
import {
  IS_QUERIED,
  ofExtension,
  RELATIONS_AND_SCHEMAS,
  USER_SCHEMA,
} from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, nameParts } from '../../postgres/sql/quote.ts';

const KINDS = ['table', 'view', 'materialized view', 'foreign table'];

/** New relations, by name: `public.orders`. */
export function newRelations({ changes }: SchemaSection): string[] {
  return changes
    .filter(({ verb, kind }) => verb === 'create' && KINDS.includes(kind))
    .map(({ object }) => object);
}

/** Partitions and children are read and written through their parent, with its privileges. */
const IS_NO_CHILD = 'not exists (select from pg_catalog.pg_inherits h where h.inhrelid = c.oid)';

/**
 * Roles with a privilege on nearly all relations of a schema, granted one by one, who lack it on a new one: neither they nor a role that
 * they belong to have it.
 */
const LACKING = `
with relations as materialized (
  select c.oid, n.nspname, c.relname, c.relnamespace, c.relowner, c.relacl,
    n.nspname || '.' || c.relname = any ($1) as is_new
  from ${RELATIONS_AND_SCHEMAS}
  where ${IS_QUERIED} and ${IS_NO_CHILD} and ${USER_SCHEMA}
    and not ${ofExtension('pg_class', 'c.oid')}
    and n.oid in (select relnamespace from pg_catalog.pg_class where relname = any ($2))
), others as (
  select relnamespace, pg_catalog.count(*) as count from relations where not is_new group by 1
), granted as (
  select r.relnamespace, a.grantee, a.privilege_type, pg_catalog.count(*) as count
  from relations r cross join pg_catalog.aclexplode(r.relacl) a
  where not r.is_new and a.grantee <> 0 and a.grantee <> r.relowner
    and a.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  group by 1, 2, 3
)
select r.nspname as schema, r.relname as name, o.rolname as role,
  pg_catalog.array_agg(g.privilege_type::pg_catalog.text order by g.privilege_type) as privileges,
  t.count::int as siblings,
  array(select distinct pg_catalog.pg_get_userbyid(d.defaclrole)::pg_catalog.text
    from pg_catalog.pg_default_acl d cross join pg_catalog.aclexplode(d.defaclacl) a
    where d.defaclobjtype = 'r' and d.defaclnamespace in (0, r.relnamespace) and a.grantee = g.grantee
      and d.defaclrole <> r.relowner) as "defaultsOf",
  pg_catalog.pg_get_userbyid(r.relowner)::pg_catalog.text as owner
from relations r
join others t using (relnamespace)
join granted g using (relnamespace)
join pg_catalog.pg_roles o on o.oid = g.grantee
where r.is_new and t.count >= ${EXPECTED_GRANTS.relations} and g.count >= t.count * ${EXPECTED_GRANTS.share} and not o.rolsuper
  and not pg_catalog.has_table_privilege(o.oid, r.oid, g.privilege_type)
  and (o.rolcanlogin or exists (select from pg_catalog.pg_auth_members m where m.roleid = o.oid))
group by r.nspname, r.relname, o.rolname, t.count, r.relnamespace, g.grantee, r.relowner
order by 3, 1, 2`;

const GRANTS = `
select n.nspname::pg_catalog.text as schema, c.relname::pg_catalog.text as name,
  (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('role', g.role, 'privileges', g.privileges)), '[]')
    from (select case a.grantee when 0 then 'PUBLIC' else pg_catalog.pg_get_userbyid(a.grantee)::pg_catalog.text end as role,
        pg_catalog.array_agg(a.privilege_type) as privileges
      from pg_catalog.aclexplode(c.relacl) a where a.grantee <> c.relowner group by 1) g) as grants
from ${RELATIONS_AND_SCHEMAS}
where n.nspname || '.' || c.relname = any ($1) and ${IS_NO_CHILD} and not ${ofExtension('pg_class', 'c.oid')}`;

/** Returns what others may do with the new relations; partitions and children are left out. */
export async function grantsOf(session: Session, relations: readonly string[]): Promise<NewRelation[]> {
  const rows = await session.query<Omit<NewRelation, 'relation'> & { readonly name: string }>(GRANTS, [
    relations.map((each) => nameParts(each).join('.')),
  ]);
  return rows.map(({ schema, name, grants }) => ({ relation: displayName(schema, name), schema, grants }));
}

/** Finds roles that may use all or nearly all relations of a schema, and not the new ones. */
export async function missingGrants(session: Session, relations: readonly string[]): Promise<MissingGrant[]> {
  const parts = relations.map(nameParts);
  const names = [parts.map((part) => part.join('.')), parts.map((part) => part.at(-1) ?? '')];
  const rows = await session.query<Omit<MissingGrant, 'relation'> & { schema: string; name: string }>(
    LACKING,
    names,
  );
  return rows.map(({ schema, name, ...grant }) => ({ ...grant, relation: displayName(schema, name) }));
}
