import { USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { DefinitionParts } from './definition-parts.ts';

/** Roles and those that they are members of, also through others. Without INHERIT and SET, from version 16 on, a membership gives nothing. */
const MEMBERSHIPS = `
  with recursive direct as materialized (
    select a.member, a.roleid from pg_catalog.pg_auth_members a
    where 'true' in (coalesce(pg_catalog.to_jsonb(a) ->> 'inherit_option', 'true'), coalesce(pg_catalog.to_jsonb(a) ->> 'set_option', 'true'))
  ), reached as (
    select d.member, d.roleid from direct d
    union select r.member, d.roleid from reached r join direct d on d.member = r.roleid
  ) select * from reached`;

/** Predefined roles that see or change all data, or reach beyond it. */
const FAR_REACHING = `('pg_read_all_data', 'pg_write_all_data', 'pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')`;

/** Roles with their attributes and memberships. */
export const ROLE_DEFINITIONS: DefinitionParts = {
  always: `
select 'role', '', r.oid::pg_catalog.text, '', pg_catalog.concat_ws(E'\\n', r.rolname,
  case when r.rolcanlogin then 'LOGIN' end, case when r.rolsuper then 'SUPERUSER' end, case when r.rolbypassrls then 'BYPASSRLS' end,
  case when r.rolvaliduntil <= pg_catalog.now() then 'EXPIRED' end, case when r.rolconnlimit >= 0 then 'CONNECTION LIMIT ' || r.rolconnlimit end)
from pg_catalog.pg_roles r where r.rolname !~ '^pg_'
union all
(with used as materialized (
  select c.relowner as owner, c.relacl from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'f') and ${USER_SCHEMA}
), owners as materialized (select distinct u.owner as oid from used u),
granted as materialized (select distinct x.grantee as oid from used u cross join lateral pg_catalog.aclexplode(u.relacl) x where x.grantee <> u.owner)
select 'membership', '', m.member::pg_catalog.text, m.roleid::pg_catalog.text, pg_catalog.concat_ws(E'\\n', o.rolname, r.rolname,
  case when o.rolcanlogin and not o.rolsuper then pg_catalog.concat_ws(E'\\n',
    case when r.rolsuper then 'superuser' end, case when r.rolbypassrls then 'BYPASSRLS' end, case when r.rolname in ${FAR_REACHING} then 'predefined' end,
    case when r.oid in (select w.oid from owners w) then 'owner' end, case when r.oid in (select g.oid from granted g) then 'granted' end) end)
from (${MEMBERSHIPS}) m join pg_catalog.pg_roles o on o.oid = m.member join pg_catalog.pg_roles r on r.oid = m.roleid)`,
};
