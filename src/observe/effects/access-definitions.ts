import { IS_QUERIED, ofExtension, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { DefinitionParts } from './definition-parts.ts';

/**
 * Policies with their conditions for rows that are there and for new ones, each read once. A policy of INSERT has the second alone, others
 * may have the first alone. A condition asks the session if it calls a function, or asks who it is: it may have another result for
 * another user.
 */
const POLICIES = `
  (select p.oid, p.polname, p.polrelid, p.polcmd, p.polpermissive, p.polroles, e.condition, e.written,
    e.condition ~* '[[:alnum:]_"][(]|\\mselect\\M|\\mcurrent_|\\msession_user\\M|\\msystem_user\\M' as asks
  from pg_catalog.pg_policy p
  cross join lateral (select pg_catalog.pg_get_expr(coalesce(p.polqual, p.polwithcheck), p.polrelid) as condition,
    pg_catalog.pg_get_expr(coalesce(p.polwithcheck, p.polqual), p.polrelid) as written offset 0) e offset 0)`;

/**
 * Says how much a condition of policy `p` lets through. It asks for the session by a value of it, or by a function of the database that may
 * read such a value; lower() and the like do not count. What a subquery reads may depend on the session.
 */
const reachOf = (
  condition: string,
) => `case when ${condition} = 'true' then 'all' when ${condition} = 'false' then 'none'
  when ${condition} ~* '\\m(current_(user|role|setting|schema|schemas|catalog|database)|session_user|system_user|pg_has_role)\\M'
    or exists (select from pg_catalog.pg_depend d join pg_catalog.pg_proc f on f.oid = d.refobjid and f.provolatile <> 'i'
      where d.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass and d.objid = p.oid and d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass)
  then 'asked' when ${condition} ~* '\\mselect\\M' then 'looked up' else 'some' end`;

/** A condition in which `(SELECT f())`, which is computed once for a statement, is written as `f()`. */
const withoutWrapping = (condition: string) =>
  `pg_catalog.regexp_replace(${condition}, '\\( SELECT ((?:[^()]|\\([^()]*\\))*?) AS [a-z_0-9"]+\\)', '\\1', 'g')`;

/** Tells if policies `p` and `q` both hold for a statement of a role that both name, or of any role. */
const TOGETHER = `(p.polcmd = q.polcmd or '*' in (p.polcmd, q.polcmd)) and (0 = any (p.polroles) or p.polroles && q.polroles)`;

/** Tells if another policy decides for all that a permissive one, `p`, allows: it lets all rows through, or asks for the session in any case. */
const DECIDED_ELSEWHERE = `exists (select from ${POLICIES} o where p.polpermissive and o.polrelid = p.polrelid and o.oid <> p.oid
  and o.polcmd in ('*', p.polcmd) and (0 = any (o.polroles) or o.polroles @> p.polroles)
  and case when o.polpermissive then o.condition = 'true' else o.asks end)`;

/** Roles that hold privileges on relations of others. A gateway such as PostgREST switches to those without a login. */
const GRANTED_ROLES = `
  select o.oid, o.rolname, o.rolcanlogin from pg_catalog.pg_roles o where o.oid >= 16384 and not o.rolsuper
    and o.oid in (select x.grantee from pg_catalog.pg_class g cross join lateral pg_catalog.aclexplode(g.relacl) x
      where g.relacl is not null and x.grantee <> g.relowner)`;

/** Roles that log in, or that others belong to, are no superusers, and may use a table of another role. */
export const USING_ROLES = `select g.oid, g.rolname from (${GRANTED_ROLES}) g
  where g.rolcanlogin or exists (select from pg_catalog.pg_auth_members m where m.roleid = g.oid)`;

/** Roles that log in, are no superusers, and may use a table of another role. */
export const APPLICATION_ROLES = `select g.oid, g.rolname from (${GRANTED_ROLES}) g where g.rolcanlogin`;

/** Roles of requests without a login, by the names that PostgREST, Supabase, PostGraphile and Hasura give them. */
const ANONYMOUS_ROLES = `select o.oid, o.rolname from pg_catalog.pg_roles o where o.rolname ~ '^(web_?)?anon(ymous)?$' and not o.rolsuper`;

/** Uses of a relation: the privilege, the command of a policy, and the event as pg_relation_is_updatable() counts it, 0 for reads. */
export const USES = `(values ('SELECT', 'r', 0), ('INSERT', 'a', 8), ('UPDATE', 'w', 4), ('DELETE', 'd', 16)) u (privilege, command, event)`;

/** Tells if a view `v` reads and writes as its owner. */
const AS_OWNER = `not coalesce(v.reloptions::pg_catalog.text[] && '{security_invoker=true,security_invoker=on,security_invoker=1,security_invoker=yes}', false)`;

/** Tells if the server itself passes a use of `u` on to the table of view `v`, and no rule or trigger does something else. */
const PASSED_ON = `v.relkind = 'v' and pg_catalog.pg_relation_is_updatable(v.oid, false) & u.event <> 0
  and not exists (select from pg_catalog.pg_rewrite x where x.ev_class = v.oid and x.ev_type <> '1')
  and not exists (select from pg_catalog.pg_trigger g where g.tgrelid = v.oid and g.tgtype & 64 <> 0)`;

/** The relations that the query of view `v` reads, with their row security. */
const TABLES_OF_VIEW = `
  select distinct b.oid, b.relname, b.relowner, b.relrowsecurity, b.relforcerowsecurity from pg_catalog.pg_rewrite w
  join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass and d.objid = w.oid
    and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid <> v.oid
  join pg_catalog.pg_class b on b.oid = d.refobjid and b.relkind <> 'S'
  where w.ev_class = v.oid and w.ev_type = '1'`;

/** Columns of tables that the query of view `v` shows as they are: the tree of a query names them beside its own. */
const SHOWN_BY_VIEW = `
  select distinct b.oid as source, m.nspname as schema, b.relname as table, a.attname, a.attnum from pg_catalog.pg_rewrite w
  cross join lateral pg_catalog.unnest((pg_catalog.string_to_array(w.ev_action::pg_catalog.text, ':resorigtbl '))[2:]) as e (entry)
  join pg_catalog.pg_class b on b.oid = pg_catalog.split_part(e.entry, ' ', 1)::pg_catalog.oid and b.relkind in ('r', 'p')
  join pg_catalog.pg_namespace m on m.oid = b.relnamespace
  join pg_catalog.pg_attribute a on a.attrelid = b.oid and a.attnum = pg_catalog.split_part(e.entry, ' ', 3)::pg_catalog.int2
  where w.ev_class = v.oid and w.ev_type = '1' and pg_catalog.split_part(e.entry, ' ', 5) like 'false%'`;

/** Tells if the policies of table `t` let role `r` do with all rows what `u` says. They are found by an index: few tables are asked for. */
export const LET_THROUGH = `
  exists (select from pg_catalog.pg_policy o where o.polrelid = t.oid and o.polpermissive and o.polcmd::pg_catalog.text in ('*', u.command)
    and pg_catalog.pg_get_expr(coalesce(o.polqual, o.polwithcheck), o.polrelid) = 'true'
    and (u.privilege in ('SELECT', 'DELETE') or pg_catalog.pg_get_expr(coalesce(o.polwithcheck, o.polqual), o.polrelid) = 'true')
    and exists (select from pg_catalog.unnest(o.polroles) m (oid) where m.oid = 0 or pg_catalog.pg_has_role(r.oid, m.oid, 'USAGE')))
  and not exists (select from pg_catalog.pg_policy o where o.polrelid = t.oid and not o.polpermissive)`;

/**
 * Relations of a schema on which a role lacks a privilege that it has on at least half of them. Partitions are left out, since they are
 * used through their table. A single granted relation says nothing about the others.
 */
const LEFT_OUT = `
  with granting as materialized (
    select n.nspname, c.relname, c.oid, c.relnamespace, c.relowner, c.relacl
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where ${IS_QUERIED} and not c.relispartition and ${USER_SCHEMA} and not ${ofExtension('pg_class', 'c.oid')}
  ), granted as (
    select g.relnamespace, x.grantee, x.privilege_type, pg_catalog.count(distinct g.oid) as count
    from granting g cross join lateral pg_catalog.aclexplode(g.relacl) x
    where x.grantee not in (0, g.relowner) and x.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE') group by 1, 2, 3
  ), all_of as (select g.relnamespace, pg_catalog.count(*) as count from granting g group by 1)
  select 'left out', '', g.nspname, r.privilege_type || ' for ' || o.rolname,
    pg_catalog.string_agg(pg_catalog.format('%I.%I', g.nspname, g.relname), E'\\n' order by g.relname)
  from granted r join all_of a using (relnamespace) join pg_catalog.pg_roles o on o.oid = r.grantee
  join granting g on g.relnamespace = r.relnamespace
  where r.count > 1 and r.count * 2 >= a.count and r.count < a.count and not pg_catalog.has_table_privilege(o.oid, g.oid, r.privilege_type)
  group by 3, 4`;

/** Owners of objects, by schema and by kind as pg_default_acl has it. */
const OWNED = `
  select case c.relkind when 'S' then 'S' else 'r' end as kind, c.relnamespace as schema, c.relowner as owner
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where (${IS_QUERIED} or c.relkind = 'S') and ${USER_SCHEMA} and not ${ofExtension('pg_class', 'c.oid')}
  union all
  select 'f', p.pronamespace, p.proowner from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
  where ${USER_SCHEMA} and not ${ofExtension('pg_proc', 'p.oid')}`;

/** So many objects of another role show that this one makes those of the schema. */
const MADE_BY_OTHERS = 3;

/** Default privileges of a role that has made no such object, although another one has: the other's name, and the privileges. */
const IDLE_DEFAULTS = `
  select 'idle defaults', '', pg_catalog.pg_get_userbyid(d.defaclrole),
    case d.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' else 'functions' end
      || coalesce(' in schema ' || pg_catalog.quote_ident(n.nspname), ''),
    pg_catalog.concat_ws(E'\\n', pg_catalog.pg_get_userbyid(m.owner), d.defaclacl)
  from pg_catalog.pg_default_acl d left join pg_catalog.pg_namespace n on n.oid = d.defaclnamespace
  cross join lateral (select o.owner, pg_catalog.count(*) as count, pg_catalog.bool_or(o.owner = d.defaclrole) over () as own
    from (${OWNED}) o where o.kind = d.defaclobjtype and d.defaclnamespace in (0, o.schema)
    group by o.owner order by 2 desc, 1 limit 1) m
  where d.defaclobjtype in ('r', 'S', 'f') and not m.own and m.count >= ${MADE_BY_OTHERS}`;

/** Objects by who may see and use them. */
export const ACCESS_DEFINITIONS: DefinitionParts = {
  always: `
select 'open', n.nspname, c.relname, '', pg_catalog.string_agg(distinct x.privilege_type, ', ' order by x.privilege_type)
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
cross join lateral pg_catalog.aclexplode(c.relacl) x
where x.grantee = 0 and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S') and ${USER_SCHEMA} and not ${ofExtension('pg_class', 'c.oid')}
group by 2, 3
union all
select 'anonymous', n.nspname, c.relname, r.rolname, pg_catalog.string_agg(distinct x.privilege_type, ', ' order by x.privilege_type)
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
cross join lateral pg_catalog.aclexplode(c.relacl) x
join (${ANONYMOUS_ROLES}) r on r.oid = x.grantee and pg_catalog.has_schema_privilege(r.oid, n.oid, 'USAGE')
where c.relkind in ('r', 'p') and not c.relrowsecurity and x.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
  and ${USER_SCHEMA} and not ${ofExtension('pg_class', 'c.oid')}
group by 2, 3, 4
union all
select 'owner only', n.nspname, p.proname, pg_catalog.oidvectortypes(p.proargtypes), ''
from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where p.proacl is not null and ${USER_SCHEMA} and not ${ofExtension('pg_proc', 'p.oid')} and not exists (
  select from pg_catalog.aclexplode(p.proacl) x left join pg_catalog.pg_roles o on o.oid = x.grantee
  where x.privilege_type = 'EXECUTE' and x.grantee <> p.proowner and not coalesce(o.rolsuper, false))
union all
(${LEFT_OUT})`,
  rules: `
select 'past policies', n.nspname, v.relname, t.relname,
  pg_catalog.string_agg(distinct u.privilege || ' for ' || r.rolname, ', ' order by u.privilege || ' for ' || r.rolname)
from pg_catalog.pg_class v join pg_catalog.pg_namespace n on n.oid = v.relnamespace
join pg_catalog.pg_roles o on o.oid = v.relowner
cross join lateral (${TABLES_OF_VIEW}) t cross join ${USES}
join (${GRANTED_ROLES}) r on case u.privilege when 'DELETE' then pg_catalog.has_table_privilege(r.oid, v.oid, u.privilege)
  else pg_catalog.has_any_column_privilege(r.oid, v.oid, u.privilege) end
-- A replica has all rows anyway, and policies are not for the owner of a table and the members of that role.
join pg_catalog.pg_roles a on a.oid = r.oid and not a.rolbypassrls and not a.rolreplication and not pg_catalog.pg_has_role(a.oid, t.relowner, 'USAGE')
where v.relkind in ('v', 'm') and ${USER_SCHEMA} and t.relrowsecurity and ${AS_OWNER}
  and (o.rolsuper or o.rolbypassrls or (o.oid = t.relowner and not t.relforcerowsecurity))
  -- A view that reads several tables may write to another one of them.
  and (u.event = 0 or case when t.relrowsecurity then ${PASSED_ON} and (select pg_catalog.count(*) = 1 from (${TABLES_OF_VIEW}) only_one) end)
  and not (${LET_THROUGH})
group by 2, 3, 4
union all
(with shown as materialized (
  select v.oid, n.nspname, v.relname, v.relowner, s.* from pg_catalog.pg_class v join pg_catalog.pg_namespace n on n.oid = v.relnamespace
  cross join lateral (${SHOWN_BY_VIEW}) s
  where v.relkind = 'v' and ${USER_SCHEMA} and ${AS_OWNER} and not ${ofExtension('pg_class', 'v.oid')})
select 'past columns', v.nspname, v.relname, r.rolname, coalesce(pg_catalog.string_agg(pg_catalog.format('%I.%I.%I%s', v.schema, v.table, v.attname,
  case when pg_catalog.has_any_column_privilege(r.oid, v.source, 'SELECT') then '' else ' of nothing' end), ', ' order by v.source, v.attnum)
  filter (where not pg_catalog.has_column_privilege(r.oid, v.source, v.attnum, 'SELECT')), '')
from shown v join (${GRANTED_ROLES}) r on r.oid <> v.relowner and pg_catalog.has_table_privilege(r.oid, v.oid, 'SELECT')
group by 2, 3, 4)
union all
select 'anonymous view', n.nspname, v.relname, r.rolname, pg_catalog.string_agg(distinct x.privilege_type, ', ' order by x.privilege_type)
from pg_catalog.pg_class v join pg_catalog.pg_namespace n on n.oid = v.relnamespace
cross join lateral pg_catalog.aclexplode(v.relacl) x join ${USES} on u.privilege = x.privilege_type and u.event <> 0
join (${ANONYMOUS_ROLES}) r on r.oid = x.grantee and pg_catalog.has_schema_privilege(r.oid, n.oid, 'USAGE')
where v.relkind = 'v' and ${USER_SCHEMA} and not ${ofExtension('pg_class', 'v.oid')} and ${AS_OWNER} and ${PASSED_ON}
  and not exists (select from (${TABLES_OF_VIEW}) t where t.relrowsecurity)
group by 2, 3, 4`,
  defaults: `
select 'insert without sequence', n.nspname, s.relname, r.rolname,
  pg_catalog.string_agg(distinct pg_catalog.format('%I.%I.%I', m.nspname, t.relname, a.attname), ', ')
from pg_catalog.pg_class s join pg_catalog.pg_namespace n on n.oid = s.relnamespace
join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass
  and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid = s.oid
join pg_catalog.pg_attrdef f on f.oid = d.objid
join pg_catalog.pg_attribute a on a.attrelid = f.adrelid and a.attnum = f.adnum
join pg_catalog.pg_class t on t.oid = f.adrelid and not t.relispartition join pg_catalog.pg_namespace m on m.oid = t.relnamespace
join (${USING_ROLES}) r on pg_catalog.has_table_privilege(r.oid, t.oid, 'INSERT')
where s.relkind = 'S' and ${USER_SCHEMA}
  and case when s.relkind = 'S' then not pg_catalog.has_sequence_privilege(r.oid, s.oid, 'USAGE, UPDATE') end
group by 2, 3, 4`,
  policies: `
select 'idle policy', n.nspname, c.relname, p.polname,
  pg_catalog.concat_ws(' ', p.polcmd, p.polpermissive, p.polroles, pg_catalog.pg_get_expr(p.polqual, p.polrelid), pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid))
from pg_catalog.pg_policy p join pg_catalog.pg_class c on c.oid = p.polrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where not c.relrowsecurity and ${USER_SCHEMA}
union all
select 'wider policy', n.nspname, c.relname, p.polname, pg_catalog.string_agg(pg_catalog.format('%I', q.polname), ', ' order by q.polname)
from ${POLICIES} p join ${POLICIES} q on q.polrelid = p.polrelid and q.oid <> p.oid and q.polpermissive and ${TOGETHER}
join pg_catalog.pg_class c on c.oid = p.polrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where p.polpermissive and c.relrowsecurity and ${USER_SCHEMA} and p.condition <> 'false'
  and (p.condition = 'true' and q.condition <> 'true' or not p.asks and q.asks)
  and not ${DECIDED_ELSEWHERE}
group by 2, 3, 4
union all
select 'policy', n.nspname, c.relname, p.polname, pg_catalog.concat_ws('; ', case when p.polpermissive then 'permissive' else 'restrictive' end,
  p.polcmd, case when p.polcmd <> 'a' then ${reachOf('p.condition')} else '' end, ${reachOf('p.written')},
  (select pg_catalog.string_agg(coalesce(r.rolname, 'PUBLIC'), ', ' order by r.rolname)
    from pg_catalog.unnest(p.polroles) m (oid) left join pg_catalog.pg_roles r on r.oid = m.oid))
from ${POLICIES} p join pg_catalog.pg_class c on c.oid = p.polrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relrowsecurity and ${USER_SCHEMA} and not ${DECIDED_ELSEWHERE}
union all
select 'policy meaning', n.nspname, c.relname, p.polname, pg_catalog.md5(pg_catalog.concat_ws('; ', p.polpermissive, p.polcmd, p.polroles,
  ${withoutWrapping('p.condition')}, ${withoutWrapping('p.written')}))
from ${POLICIES} p join pg_catalog.pg_class c on c.oid = p.polrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where ${USER_SCHEMA}`,
  functions: `
select 'called by all', n.nspname, p.proname, '', coalesce(pg_catalog.string_agg(
  pg_catalog.concat_ws(' ', pg_catalog.oidvectortypes(p.proargtypes), case when p.prosecdef then 'SECURITY DEFINER' end), E'\\n'
  order by p.oid) filter (where 0 = any (array(select x.grantee from pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) x))), '')
from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where p.oid >= 16384 and p.prorettype not in ('pg_catalog.trigger'::pg_catalog.regtype, 'pg_catalog.event_trigger'::pg_catalog.regtype)
  and ${USER_SCHEMA} and not ${ofExtension('pg_proc', 'p.oid')}
group by 2, 3
union all
select 'called without a login', n.nspname, p.proname, r.rolname, pg_catalog.string_agg(distinct pg_catalog.oidvectortypes(p.proargtypes), E'\\n')
from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
join (${ANONYMOUS_ROLES}) r on pg_catalog.has_schema_privilege(r.oid, n.oid, 'USAGE') and pg_catalog.has_function_privilege(r.oid, p.oid, 'EXECUTE')
where p.prosecdef and p.oid >= 16384 and ${USER_SCHEMA} and not ${ofExtension('pg_proc', 'p.oid')}
  and p.prorettype not in ('pg_catalog.trigger'::pg_catalog.regtype, 'pg_catalog.event_trigger'::pg_catalog.regtype)
group by 2, 3, 4`,
  defaultPrivileges: `
select 'anonymous later', '', pg_catalog.pg_get_userbyid(d.defaclrole),
  r.rolname || coalesce(' in schema ' || pg_catalog.quote_ident(n.nspname), ''),
  pg_catalog.string_agg(distinct x.privilege_type, ', ' order by x.privilege_type)
from pg_catalog.pg_default_acl d left join pg_catalog.pg_namespace n on n.oid = d.defaclnamespace
cross join lateral pg_catalog.aclexplode(d.defaclacl) x
join (${ANONYMOUS_ROLES}) r on r.oid = x.grantee and coalesce(pg_catalog.has_schema_privilege(r.oid, n.oid, 'USAGE'), true)
where d.defaclobjtype = 'r' and x.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
group by 3, 4
union all
${IDLE_DEFAULTS}
union all
select 'open later', '', pg_catalog.pg_get_userbyid(d.defaclrole),
  case d.defaclobjtype when 'r' then 'table' when 'S' then 'sequence' else 'schema' end || coalesce(' in schema ' || pg_catalog.quote_ident(n.nspname), ''),
  pg_catalog.string_agg(distinct x.privilege_type, ', ' order by x.privilege_type)
from pg_catalog.pg_default_acl d left join pg_catalog.pg_namespace n on n.oid = d.defaclnamespace
cross join lateral pg_catalog.aclexplode(d.defaclacl) x
where x.grantee = 0 and d.defaclobjtype in ('r', 'S', 'n')
group by 3, 4
union all
select 'closed later', '', pg_catalog.pg_get_userbyid(d.defaclrole), 'function', ''
from pg_catalog.pg_default_acl d
where d.defaclnamespace = 0 and d.defaclobjtype = 'f' and not exists (select from pg_catalog.aclexplode(d.defaclacl) x where x.grantee = 0)`,
};
