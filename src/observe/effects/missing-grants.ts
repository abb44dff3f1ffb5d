import {
  type EffectFacts,
  EXPECTED_GRANTS,
  type Grants,
  type LostGrant,
  type MissingGrant,
  type NewRelation,
  neededOn,
} from '../../model/effect-facts.ts';
import type { SchemaSection } from '../../model/report.ts';
import {
  IS_QUERIED,
  ofExtension,
  RELATIONS_AND_SCHEMAS,
  USER_SCHEMA,
} from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, nameParts } from '../../postgres/sql/quote.ts';
import { USES } from './access-definitions.ts';

const KINDS = ['table', 'view', 'materialized view', 'foreign table'];

/** Relations that the command made or replaced, by name: `public.orders`. */
export function madeRelations({ changes }: SchemaSection): string[] {
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

/** Privileges of others than the owner on relation `c`. */
const GRANTS_OF = `
  (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('role', g.role, 'privileges', g.privileges)), '[]')
    from (select case a.grantee when 0 then 'PUBLIC' else pg_catalog.pg_get_userbyid(a.grantee)::pg_catalog.text end as role,
        pg_catalog.array_agg(a.privilege_type) as privileges
      from pg_catalog.aclexplode(c.relacl) a where a.grantee <> c.relowner group by 1) g)`;

/** Tells if a privilege of `u` has a use on relation `c`. */
const IS_USABLE = `case when u.event = 0 or c.relkind in ('r', 'p', 'f') then true
  when c.relkind = 'v' then pg_catalog.pg_relation_is_updatable(c.oid, true) & u.event <> 0 else false end`;

const MADE = `
select c.oid::pg_catalog.text, n.nspname::pg_catalog.text as schema, c.relname::pg_catalog.text as name, c.relkind in ('v', 'm') as "isView",
  array(select u.privilege from ${USES} where ${IS_USABLE}) as usable, ${GRANTS_OF} as grants
from ${RELATIONS_AND_SCHEMAS}
where n.nspname || '.' || c.relname = any ($1) and ${IS_NO_CHILD} and not ${ofExtension('pg_class', 'c.oid')}`;

const GRANTS_BEFORE = `
select c.oid::pg_catalog.text, n.nspname::pg_catalog.text as schema, c.relname::pg_catalog.text as name,
  pg_catalog.pg_get_userbyid(c.relowner)::pg_catalog.text as owner, ${GRANTS_OF} as grants
from ${RELATIONS_AND_SCHEMAS} where ${IS_QUERIED} and ${IS_NO_CHILD} and ${USER_SCHEMA}`;

/** Privileges on former relations that roles do not have on those which have the names now. */
const LOST = `
select n.nspname::pg_catalog.text as schema, c.relname::pg_catalog.text as name, f.role,
  pg_catalog.array_agg(distinct f.privilege order by f.privilege) as privileges
from pg_catalog.json_to_recordset($1) as f (relation pg_catalog.text, role pg_catalog.text, privilege pg_catalog.text)
join ${RELATIONS_AND_SCHEMAS} on n.nspname || '.' || c.relname = f.relation
join ${USES} on u.privilege = f.privilege and ${IS_USABLE}
left join pg_catalog.pg_roles o on o.rolname = f.role
where case when f.role = 'PUBLIC' then not pg_catalog.has_table_privilege('public', c.oid, f.privilege)
  when o.oid is null or o.rolsuper then false
  when o.rolcanlogin or exists (select from pg_catalog.pg_auth_members m where m.roleid = o.oid)
  then not pg_catalog.has_table_privilege(o.oid, c.oid, f.privilege) else false end
group by 1, 2, 3
order by 1, 2, 3`;

interface Former {
  readonly oid: string;
  readonly owner: string;
  readonly grants: Grants;
}

/** The relations before the command, and what roles could do with them, by name: `public.orders`. */
export type FormerGrants = ReadonlyMap<string, Former>;

export async function readGrantsBefore(session: Session): Promise<FormerGrants> {
  const rows = await session.query<Former & { schema: string; name: string }>(GRANTS_BEFORE);
  return new Map(rows.map(({ schema, name, ...former }) => [displayName(schema, name), former]));
}

type GrantFacts = Pick<EffectFacts, 'missingGrants' | 'newRelations' | 'lostGrants'>;

/**
 * Finds roles that may use all or nearly all relations of a schema and not a new one, and those that have lost privileges on one made again.
 * @param names of relations that the command made or replaced.
 */
export async function grantsOnMade(
  session: Session,
  names: readonly string[],
  before: FormerGrants,
): Promise<GrantFacts> {
  if (names.length === 0) return { missingGrants: [], newRelations: [], lostGrants: [] };
  const rows = await session.query<Omit<NewRelation, 'relation'> & { oid: string; name: string }>(MADE, [
    names.map((each) => nameParts(each).join('.')),
  ]);
  // CREATE OR REPLACE keeps the relation, and who may use it.
  const kept = new Set([...before.values()].map(({ oid }) => oid));
  const made = rows
    .filter(({ oid }) => !kept.has(oid))
    .map(({ oid: _, name, ...rest }) => ({ ...rest, relation: displayName(rest.schema, name) }));
  const formerOf = (relation: string) => before.get(relation);
  const again = made.filter(({ relation }) => formerOf(relation));
  const unknown = made.filter(({ relation }) => !formerOf(relation));
  return {
    missingGrants: await missingGrants(session, unknown),
    // Production may have grants where a database for tests has none.
    newRelations: [...unknown, ...again.filter(({ relation }) => formerOf(relation)?.grants.length === 0)],
    lostGrants: await lostGrants(session, again, before),
  };
}

async function missingGrants(session: Session, made: readonly NewRelation[]): Promise<MissingGrant[]> {
  if (made.length === 0) return [];
  const parts = made.map(({ relation }) => nameParts(relation));
  const names = [parts.map((part) => part.join('.')), parts.map((part) => part.at(-1) ?? '')];
  const rows = await session.query<Omit<MissingGrant, 'relation'> & { schema: string; name: string }>(
    LACKING,
    names,
  );
  return rows.flatMap(({ schema, name, privileges, ...grant }): MissingGrant[] => {
    const relation = made.find((each) => each.relation === displayName(schema, name));
    const needed = relation ? neededOn(relation, privileges) : [];
    return relation && needed.length > 0
      ? [{ ...grant, privileges: needed, relation: relation.relation }]
      : [];
  });
}

async function lostGrants(
  session: Session,
  again: readonly NewRelation[],
  before: FormerGrants,
): Promise<LostGrant[]> {
  const had = again.flatMap(({ relation, usable }) => {
    const former = before.get(relation);
    const grants = former ? [...former.grants, { role: former.owner, privileges: usable }] : [];
    return grants.flatMap(({ role, privileges }) =>
      privileges.map((privilege) => ({ relation: nameParts(relation).join('.'), role, privilege })),
    );
  });
  if (had.length === 0) return [];
  const rows = await session.query<Omit<LostGrant, 'relation'> & { schema: string; name: string }>(LOST, [
    JSON.stringify(had),
  ]);
  return rows.map(({ schema, name, ...lost }) => ({ ...lost, relation: displayName(schema, name) }));
}
