import { FIRST_USER_OID, ofExtension, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import { APPLICATION_ROLES } from './access-definitions.ts';
import type { DefinitionParts } from './definition-parts.ts';

/** Words of a body that take a lock which only one transaction can have. */
const EXCLUSIVE_LOCK =
  '\\mfor\\s+(no\\s+key\\s+)?update\\M|\\mpg_(try_)?advisory_(xact_)?lock\\s*\\(|\\mlock\\s+table\\M';

/** The body of function `p` in SQL or PL/pgSQL, without comments. */
const BODY = `pg_catalog.regexp_replace(pg_catalog.regexp_replace(coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc),
  '/\\*.*?\\*/', ' ', 'g'), '--[^\\n]*', ' ', 'g')`;

/** Functions with those who may call them. Privileges of roles of applications may come through other roles. */
const CALLERS = `
  select p.oid, r.rolname::pg_catalog.text as role from pg_catalog.pg_proc p
  join (${APPLICATION_ROLES}) r on pg_catalog.has_function_privilege(r.oid, p.oid, 'EXECUTE') where p.oid >= ${FIRST_USER_OID}
  union select p.oid, coalesce(r.rolname, 'PUBLIC') from pg_catalog.pg_proc p
  cross join lateral pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) x
  left join pg_catalog.pg_roles r on r.oid = x.grantee
  where p.oid >= ${FIRST_USER_OID} and x.grantee <> p.proowner and not coalesce(r.rolsuper, false)`;

/** Functions that are called by statements, and not by triggers. */
const IS_CALLED = `p.oid >= ${FIRST_USER_OID} and ${USER_SCHEMA} and not ${ofExtension('pg_proc', 'p.oid')}
  and p.prorettype not in ('pg_catalog.trigger'::pg_catalog.regtype, 'pg_catalog.event_trigger'::pg_catalog.regtype)`;

/**
 * Matches a write of a body: the words, with the table, in lower case if it has no quotes; or the EXECUTE of a text that is not known to
 * be a query.
 */
const WRITE =
  `\\m(?:(insert\\s+into|update|delete\\s+from|merge\\s+into|truncate(?:\\s+table)?)\\s+(?:only\\s+)?(?:"?\\w+"?\\.)?"?(\\w+)` +
  `|execute\\s+(?!on\\M|function\\M|procedure\\M|(?:format\\s*\\(\\s*)?''\\s*select\\M))`;

/** Tells if some role that logs in, has no rights of the owner of function `p`, and no privilege for a write of the body. */
const WRITES_FOR_OTHERS = `exists (select from pg_catalog.pg_roles r
  cross join lateral pg_catalog.regexp_matches(${BODY}, '${WRITE}', 'gi') m
  where r.rolcanlogin and not r.rolsuper and not pg_catalog.pg_has_role(r.oid, p.proowner, 'USAGE')
    and pg_catalog.has_schema_privilege(r.oid, n.oid, 'USAGE')
    and (m[1] is null or exists (select from pg_catalog.pg_class t
      where t.relname in (m[2], pg_catalog.lower(m[2])) and t.relkind in ('r', 'p', 'v', 'f') and t.relpersistence <> 't'
      and not pg_catalog.has_table_privilege(r.oid, t.oid,
        case pg_catalog.lower(pg_catalog.left(m[1], 1)) when 'i' then 'INSERT' when 'd' then 'DELETE' when 't' then 'TRUNCATE' else 'UPDATE' end))))`;

/** Functions by their callers and by their bodies. */
export const FUNCTION_DEFINITIONS: DefinitionParts = {
  functions: `
select 'callers', n.nspname, p.proname, pg_catalog.oidvectortypes(p.proargtypes),
  coalesce(pg_catalog.string_agg(c.role, ', ' order by c.role), '')
from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace left join (${CALLERS}) c on c.oid = p.oid
where ${IS_CALLED}
group by 2, 3, 4
union all
select 'open function', n.nspname, p.proname, pg_catalog.oidvectortypes(p.proargtypes), w.text
from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
cross join lateral (select pg_catalog.concat_ws(', ',
  case when not coalesce(pg_catalog.array_to_string(p.proconfig, ',') like '%search_path=%', false) then 'SECURITY DEFINER without a search_path' end,
  case when ${WRITES_FOR_OTHERS} then 'SECURITY DEFINER that writes what a role which may call it may not write' end) as text offset 0) w
where p.prosecdef and ${IS_CALLED} and w.text <> ''
  and exists (select from pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) x where x.grantee = 0)
union all
(with bodies as materialized (
  select p.oid, p.proname, n.nspname, '(' || pg_catalog.oidvectortypes(p.proargtypes) || ')' as types, pg_catalog.lower(coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc)) as text,
    case when pg_catalog.lower(coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc)) like any ('{%for%update%,%advisory%lock%,%lock%table%}')
      then ${BODY} ~* '${EXCLUSIVE_LOCK}' else false end as locks
  from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
  join pg_catalog.pg_language l on l.oid = p.prolang and l.lanname in ('sql', 'plpgsql')
  where p.oid >= ${FIRST_USER_OID} and ${USER_SCHEMA} and not ${ofExtension('pg_proc', 'p.oid')}
), locking as materialized (select b.oid, pg_catalog.lower(b.proname) || '(' as called from bodies b where b.locks)
select 'locking', b.nspname, b.proname, '', coalesce(pg_catalog.string_agg(b.types, E'\\n' order by b.oid) filter (where b.locks
  or exists (select from locking o where o.oid <> b.oid and pg_catalog.strpos(b.text, o.called) > 0)), '')
from bodies b group by 2, 3)`,
};
