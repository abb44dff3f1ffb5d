import type { DefinitionParts } from './definition-parts.ts';

/**
 * Search paths with which sessions begin: `role` is null for the database's own, else a role that logs in and has its own. The oldest
 * settings come first. This session has set its own path, and its `reset_val` may be that of its role.
 */
const PATHS = `
  select null as role, coalesce(
    (select pg_catalog.substr(s.setting, 13) from pg_catalog.pg_db_role_setting d cross join pg_catalog.unnest(d.setconfig) as s (setting)
      where d.setrole = 0 and d.setdatabase in (0, (select b.oid from pg_catalog.pg_database b where b.datname = pg_catalog.current_database()))
        and s.setting ~ '^search_path=' order by d.setdatabase desc limit 1),
    case when not exists (select from pg_catalog.pg_db_role_setting d join pg_catalog.pg_roles r on r.oid = d.setrole
        cross join pg_catalog.unnest(d.setconfig) as s (setting) where r.rolname = session_user and s.setting ~ '^search_path=')
      then (select p.reset_val from pg_catalog.pg_settings p where p.name = 'search_path') end,
    '"$user", public') as path
  union all
  (select distinct on (r.rolname) r.rolname, pg_catalog.replace(pg_catalog.substr(s.setting, 13), '$user', r.rolname)
  from pg_catalog.pg_db_role_setting d join pg_catalog.pg_roles r on r.oid = d.setrole
  cross join pg_catalog.unnest(d.setconfig) as s (setting)
  where d.setdatabase in (0, (select b.oid from pg_catalog.pg_database b where b.datname = pg_catalog.current_database()))
    and r.rolcanlogin and s.setting ~ '^search_path='
  order by r.rolname, d.setdatabase desc)`;

/** The schemas of extensions, and the search paths that do not have them. */
export const EXTENSION_DEFINITIONS: DefinitionParts = {
  always: `
select 'extension', '', e.extname, '', pg_catalog.jsonb_build_object('schema', n.nspname, 'unreached', (
  select coalesce(pg_catalog.jsonb_object_agg(coalesce(p.role, ''), p.path), '{}') from (${PATHS}) p
  where n.nspname <> 'pg_catalog' and n.nspname <> all (
    select pg_catalog.btrim(w.word, ' "') from pg_catalog.regexp_split_to_table(p.path, ',') as w (word))))::pg_catalog.text
from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace`,
};

/** Names that code gives to what belongs to extensions: functions, types, tables and operators. */
export const EXTENSION_MEMBERS = `
select e.extname as extension, pg_catalog.array_agg(distinct x.name) as names
from pg_catalog.pg_extension e
join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass and d.refobjid = e.oid and d.deptype = 'e'
cross join lateral (
  select p.proname::pg_catalog.text from pg_catalog.pg_proc p where d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and p.oid = d.objid
  union all
  select t.typname::pg_catalog.text from pg_catalog.pg_type t where d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass and t.oid = d.objid
  union all
  select c.relname::pg_catalog.text from pg_catalog.pg_class c where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and c.oid = d.objid
  union all
  select o.oprname::pg_catalog.text from pg_catalog.pg_operator o where d.classid = 'pg_catalog.pg_operator'::pg_catalog.regclass and o.oid = d.objid
) x (name)
where e.extname = any ($1)
group by 1`;
