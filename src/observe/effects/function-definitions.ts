import { FIRST_USER_OID, ofExtension, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';

/** Words of a body that take a lock which only one transaction can have. */
const EXCLUSIVE_LOCK =
  '\\mfor\\s+(no\\s+key\\s+)?update\\M|\\mpg_(try_)?advisory_(xact_)?lock\\s*\\(|\\mlock\\s+table\\M';

/** The body of function `p` in SQL or PL/pgSQL, without comments. */
const BODY = `pg_catalog.regexp_replace(pg_catalog.regexp_replace(coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc),
  '/\\*.*?\\*/', ' ', 'g'), '--[^\\n]*', ' ', 'g')`;

/** Functions by what their bodies do; a part of a query of kind, schema, relation, name and text. */
export const FUNCTION_DEFINITIONS = `
(with bodies as materialized (
  select p.oid, p.proname, n.nspname, '(' || pg_catalog.oidvectortypes(p.proargtypes) || ')' as types, pg_catalog.lower(coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc)) as text,
    case when coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc) ~* '${EXCLUSIVE_LOCK}' then ${BODY} ~* '${EXCLUSIVE_LOCK}' else false end as locks
  from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
  join pg_catalog.pg_language l on l.oid = p.prolang and l.lanname in ('sql', 'plpgsql')
  where p.oid >= ${FIRST_USER_OID} and ${USER_SCHEMA} and not ${ofExtension('pg_proc', 'p.oid')}
), locking as materialized (select b.oid, pg_catalog.lower(b.proname) || '(' as called from bodies b where b.locks)
select 'locking', b.nspname, b.proname, '', coalesce(pg_catalog.string_agg(b.types, E'\\n' order by b.oid) filter (where b.locks
  or exists (select from locking o where o.oid <> b.oid and pg_catalog.strpos(b.text, o.called) > 0)), '')
from bodies b group by 2, 3)`;
