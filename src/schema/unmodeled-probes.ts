import { FIRST_USER_OID, ofExtension } from '../postgres/catalogue/user-objects.ts';

const internal = (catalogue: string, oid: string) => `exists (select from pg_catalog.pg_depend d
  where d.classid = 'pg_catalog.${catalogue}'::pg_catalog.regclass and d.objid = ${oid} and d.deptype = 'i')`;
const own = (catalogue: string, oid: string) =>
  `${oid} >= ${FIRST_USER_OID} and not ${ofExtension(catalogue, oid)} and not ${internal(catalogue, oid)}`;
const address = (catalogue: string, oid: string) =>
  `(pg_catalog.pg_identify_object('pg_catalog.${catalogue}'::pg_catalog.regclass, ${oid}, 0)).identity`;
const comment = (catalogue: string, oid: string) => `pg_catalog.obj_description(${oid}, '${catalogue}')`;
const userColumn = `a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'p', 'm', 'f') and c.relpersistence <> 't'
  and c.oid >= ${FIRST_USER_OID} and not ${ofExtension('pg_class', 'c.oid')}`;

export const ENFORCEMENT = 'enforcement of a constraint';
export const PARTITION_TRIGGER = 'trigger of a partition';
export const PLACEMENT = 'table access method or tablespace';
/** The options of columns that users set, and pg_dump writes. */
const COLUMN_OPTIONS = ['n_distinct', 'n_distinct_inherited'];
/** Options that pg_dump leaves out as well: the number that PostgreSQL 15.20 gives each new version of a column. */
const SERVERS_OWN_OPTIONS = ['pg_attver'];
export const SEQUENCE_VALUE = 'sequence value';
/** Options that neither list has. They are neither compared nor part of the fingerprint. */
export const UNKNOWN_OPTION = 'unknown column option';
const keyIn = (keys: readonly string[]) =>
  `pg_catalog.split_part(o, '=', 1) in (${keys.map((key) => `'${key}'`).join(', ')})`;

/** A table in EXCEPT of FOR ALL TABLES. pg-delta knows it by this id, and takes it for one that the publication sends. */
export const LEFT_OUT = 'table of a publication';

export const INDEX_PROPERTY = 'index clustered on, or column statistics of an index';

/** Each returns name and content, and the kind if it reads several. The report names a probe that the role may not run. */
export const PROBES: readonly { kind: string | readonly string[]; sql: string }[] = [
  {
    kind: 'statistics object',
    // The default target is -1 until version 16 and null from 17 on.
    sql: `select ${address('pg_statistic_ext', 's.oid')} as name, pg_catalog.concat_ws('|', pg_catalog.pg_get_statisticsobjdef(s.oid),
        pg_catalog.pg_get_userbyid(s.stxowner), nullif(pg_catalog.to_jsonb(s) ->> 'stxstattarget', '-1'), ${comment('pg_statistic_ext', 's.oid')}) as content
      from pg_catalog.pg_statistic_ext s`,
  },
  {
    kind: 'cast',
    sql: `select ${address('pg_cast', 'x.oid')} as name, pg_catalog.concat_ws('|', x.castfunc::pg_catalog.regprocedure, x.castcontext,
        x.castmethod, ${comment('pg_cast', 'x.oid')}) as content from pg_catalog.pg_cast x where ${own('pg_cast', 'x.oid')}`,
  },
  {
    kind: 'operator',
    sql: `select ${address('pg_operator', 'x.oid')} as name, pg_catalog.concat_ws('|', x.oprcode::pg_catalog.regprocedure,
        x.oprcom::pg_catalog.regoperator, x.oprnegate::pg_catalog.regoperator, x.oprrest, x.oprjoin, x.oprcanmerge, x.oprcanhash,
        pg_catalog.pg_get_userbyid(x.oprowner), ${comment('pg_operator', 'x.oid')}) as content
      from pg_catalog.pg_operator x where ${own('pg_operator', 'x.oid')}`,
  },
  {
    kind: 'operator class',
    sql: `select ${address('pg_opclass', 'x.oid')} as name, pg_catalog.concat_ws('|', x.opcintype::pg_catalog.regtype, x.opcdefault,
        x.opckeytype::pg_catalog.regtype, pg_catalog.pg_get_userbyid(x.opcowner), ${comment('pg_opclass', 'x.oid')}) as content
      from pg_catalog.pg_opclass x where ${own('pg_opclass', 'x.oid')}`,
  },
  {
    kind: 'operator family',
    sql: `select ${address('pg_opfamily', 'x.oid')} as name, pg_catalog.concat_ws('|', pg_catalog.pg_get_userbyid(x.opfowner),
        (select pg_catalog.string_agg(pg_catalog.concat_ws(' ', o.amopopr::pg_catalog.regoperator, o.amopstrategy, o.amoppurpose), ',' order by
          o.amoplefttype::pg_catalog.regtype::text, o.amoprighttype::pg_catalog.regtype::text, o.amopstrategy, o.amoppurpose)
          from pg_catalog.pg_amop o where o.amopfamily = x.oid),
        (select pg_catalog.string_agg(pg_catalog.concat_ws(' ', p.amproc, p.amprocnum), ',' order by
          p.amproclefttype::pg_catalog.regtype::text, p.amprocrighttype::pg_catalog.regtype::text, p.amprocnum)
          from pg_catalog.pg_amproc p where p.amprocfamily = x.oid)) as content
      from pg_catalog.pg_opfamily x where x.oid >= ${FIRST_USER_OID} and not ${ofExtension('pg_opfamily', 'x.oid')}`,
  },
  ...textSearch(),
  {
    kind: 'language',
    sql: `select x.lanname as name, pg_catalog.concat_ws('|', x.lanpltrusted, x.lanplcallfoid::pg_catalog.regproc, x.laninline::pg_catalog.regproc,
        x.lanvalidator::pg_catalog.regproc, pg_catalog.pg_get_userbyid(x.lanowner), x.lanacl, ${comment('pg_language', 'x.oid')}) as content
      from pg_catalog.pg_language x`,
  },
  {
    kind: 'access method',
    sql: `select x.amname as name, pg_catalog.concat_ws('|', x.amhandler, x.amtype) as content from pg_catalog.pg_am x`,
  },
  {
    kind: 'transform',
    sql: `select ${address('pg_transform', 'x.oid')} as name, pg_catalog.concat_ws('|', x.trffromsql, x.trftosql) as content
      from pg_catalog.pg_transform x where ${own('pg_transform', 'x.oid')}`,
  },
  {
    kind: 'extension version',
    sql: 'select x.extname as name, x.extversion as content from pg_catalog.pg_extension x',
  },
  {
    // One scan of pg_attribute for these kinds: with 10,000 tables it has 200,000 rows.
    kind: ['column storage', 'column statistics target', UNKNOWN_OPTION, INDEX_PROPERTY],
    sql: `with a as materialized (
        select a.attrelid, a.attnum, a.attname, a.attstorage, a.attcompression, a.attisdropped,
          (select pg_catalog.string_agg(o, ',' order by o) from pg_catalog.unnest(a.attoptions) o where ${keyIn(COLUMN_OPTIONS)}) as options,
          array(select pg_catalog.split_part(o, '=', 1) from pg_catalog.unnest(a.attoptions) o
            where not ${keyIn([...COLUMN_OPTIONS, ...SERVERS_OWN_OPTIONS])}) as unknown,
          a.attstorage <> t.typstorage or a.attcompression <> '' as stored, coalesce(a.attstattarget, -1) <> -1 as targeted, a.attstattarget
        from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid
        where a.attnum > 0 and (a.attstorage <> t.typstorage or a.attcompression <> '' or a.attoptions is not null
          -- The default is -1 until version 16 and null from 17 on.
          or coalesce(a.attstattarget, -1) <> -1)),
      c as (select pg_catalog.format('%s.%I', c.oid::pg_catalog.regclass, a.attname) as name, a.*
        from a join pg_catalog.pg_class c on c.oid = a.attrelid where ${userColumn})
      select 'column storage' as kind, name, pg_catalog.concat_ws('|', attstorage, nullif(attcompression, '')) as content from c where stored
      union all
      select 'column statistics target', name, pg_catalog.concat_ws('|', attstattarget, options) from c
        where targeted or options is not null
      union all
      select distinct '${UNKNOWN_OPTION}', o, '' from c, pg_catalog.unnest(unknown) o
      union all
      -- A join: as a subquery, PostgreSQL scans \`a\` for each index, which takes more than five minutes for 100,000 tables.
      select '${INDEX_PROPERTY}', x.indexrelid::pg_catalog.regclass::text, pg_catalog.concat_ws('|', x.indisclustered, g.targets)
      from pg_catalog.pg_index x left join (
          select a.attrelid, pg_catalog.string_agg(a.attnum || ':' || a.attstattarget, ',' order by a.attnum) as targets
          from a where a.targeted group by a.attrelid) g on g.attrelid = x.indexrelid
      where x.indexrelid >= ${FIRST_USER_OID} and (x.indisclustered or g.attrelid is not null)`,
  },
  {
    kind: PLACEMENT,
    sql: `select c.oid::pg_catalog.regclass::text as name, pg_catalog.concat_ws('|', m.amname, s.spcname) as content
      from pg_catalog.pg_class c left join pg_catalog.pg_am m on m.oid = c.relam left join pg_catalog.pg_tablespace s on s.oid = c.reltablespace
      where c.oid >= ${FIRST_USER_OID} and c.relkind in ('r', 'p', 'm', 'i', 'I') and c.relpersistence <> 't'
        and (c.reltablespace <> 0 or (c.relkind in ('r', 'm') and m.amname <> 'heap'))`,
  },
  {
    kind: 'not-null constraint',
    // From version 18 on a constraint of its own; before, only a property of the column.
    sql: `select pg_catalog.format('%s.%I', x.conrelid::pg_catalog.regclass, x.conname) as name,
        pg_catalog.concat_ws('|', pg_catalog.pg_get_constraintdef(x.oid), x.convalidated) as content
      from pg_catalog.pg_constraint x where x.contype = 'n' and x.conrelid >= ${FIRST_USER_OID}
        and (not x.convalidated or x.connoinherit)`,
  },
  {
    // ALTER TABLE … DISABLE TRIGGER ALL is about the triggers of foreign keys and of deferrable constraints as well.
    kind: ENFORCEMENT,
    sql: `select pg_catalog.format('%s.%I', x.conrelid::pg_catalog.regclass, x.conname) as name,
        pg_catalog.string_agg(t.tgenabled::text, '' order by t.tgrelid::pg_catalog.regclass::text, t.tgtype) as content
      from pg_catalog.pg_constraint x join pg_catalog.pg_trigger t on t.tgconstraint = x.oid
      where t.tgisinternal and t.tgenabled <> 'O' group by x.oid, x.conname, x.conrelid`,
  },
  {
    // A row trigger of a partitioned table has a copy in each partition, which can be disabled alone. Version 14 calls it internal.
    kind: PARTITION_TRIGGER,
    sql: `select pg_catalog.format('%s.%I', t.tgrelid::pg_catalog.regclass, t.tgname) as name, t.tgenabled::text as content
      from pg_catalog.pg_trigger t join pg_catalog.pg_trigger p on p.oid = t.tgparentid
      where (not t.tgisinternal or t.tgconstraint = 0) and t.tgenabled in ('D', 'R') and p.tgenabled <> t.tgenabled`,
  },
  {
    kind: 'table of a type',
    sql: `select c.oid::pg_catalog.regclass::text as name, c.reloftype::pg_catalog.regtype::text as content
      from pg_catalog.pg_class c where c.oid >= ${FIRST_USER_OID} and c.relkind in ('r', 'p') and c.reloftype <> 0`,
  },
  {
    kind: 'database setting',
    sql: `select coalesce(pg_catalog.pg_get_userbyid(nullif(x.setrole, 0)) || ': ', '') || pg_catalog.split_part(v, '=', 1) as name,
        pg_catalog.substr(v, pg_catalog.strpos(v, '=') + 1) as content
      from pg_catalog.pg_db_role_setting x join pg_catalog.pg_database b on b.oid = x.setdatabase, pg_catalog.unnest(x.setconfig) v
      where b.datname = pg_catalog.current_database()`,
  },
  {
    kind: 'database',
    // The comment is safemigrate's mark on a clone.
    sql: `select p.name, p.content from pg_catalog.pg_database b, lateral (values
        ('privileges', (select pg_catalog.string_agg(i::text, ',' order by i::text) from pg_catalog.unnest(b.datacl) i)),
        ('owner', pg_catalog.pg_get_userbyid(b.datdba)),
        ('comment', (select d from pg_catalog.shobj_description(b.oid, 'pg_database') d where d not like 'safemigrate: %'))) p(name, content)
      where b.datname = pg_catalog.current_database() and p.content is not null`,
  },
  {
    kind: LEFT_OUT,
    // From version 19 on, as the next: older ones have no such keys.
    sql: `select pg_catalog.format('%I: %s', p.pubname, r.prrelid::pg_catalog.regclass) as name, pg_catalog.json_build_object(
        'kind', 'publicationRel', 'publication', p.pubname, 'schema', n.nspname, 'table', c.relname)::text as content
      from pg_catalog.pg_publication_rel r join pg_catalog.pg_publication p on p.oid = r.prpubid
      join pg_catalog.pg_class c on c.oid = r.prrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      where pg_catalog.to_jsonb(r) -> 'prexcept' = 'true'`,
  },
  {
    kind: 'sequences of a publication',
    sql: `select pg_catalog.quote_ident(p.pubname) as name, '' as content
      from pg_catalog.pg_publication p where pg_catalog.to_jsonb(p) -> 'puballsequences' = 'true'`,
  },
  {
    kind: 'option of a subscription',
    // A column that the version lacks is the one of `d`, its default. Not all roles may read the whole row.
    sql: `select pg_catalog.format('%I: %s', s.subname, o.name) as name, o.value as content
      from (select true as subpasswordrequired, false as subfailover, false as subretaindeadtuples, 0 as submaxretention,
          '-1' as subwalrcvtimeout, 0::pg_catalog.oid as subserver) d
      cross join lateral (select subname, subdbid, subpasswordrequired, subfailover, subretaindeadtuples, submaxretention,
          subwalrcvtimeout, subserver from pg_catalog.pg_subscription) s
      join pg_catalog.pg_database b on b.oid = s.subdbid and b.datname = pg_catalog.current_database()
      cross join lateral (values ('password_required', nullif(s.subpasswordrequired, true)::text),
          ('failover', nullif(s.subfailover, false)::text), ('retain_dead_tuples', nullif(s.subretaindeadtuples, false)::text),
          ('max_retention_duration', nullif(s.submaxretention, 0)::text), ('wal_receiver_timeout', nullif(s.subwalrcvtimeout, '-1')),
          ('server', (select f.srvname from pg_catalog.pg_foreign_server f where f.oid = s.subserver))) o(name, value)
      where o.value is not null`,
  },
  {
    kind: 'large object',
    sql: `select 'large objects' as name, pg_catalog.count(*)::text as content from pg_catalog.pg_largeobject_metadata`,
  },
  {
    kind: SEQUENCE_VALUE,
    sql: `select pg_catalog.format('%I.%I', s.schemaname, s.sequencename) as name, coalesce(s.last_value::text, '') as content
      from pg_catalog.pg_sequences s`,
  },
];

function textSearch(): { kind: string; sql: string }[] {
  return [
    {
      kind: 'text search configuration',
      sql: `select ${address('pg_ts_config', 'x.oid')} as name, pg_catalog.concat_ws('|', pg_catalog.pg_get_userbyid(x.cfgowner),
          ${address('pg_ts_parser', 'x.cfgparser')}, (select pg_catalog.string_agg(m.maptokentype || ':' || m.mapseqno || ':' || m.mapdict::pg_catalog.regdictionary, ','
            order by m.maptokentype, m.mapseqno) from pg_catalog.pg_ts_config_map m where m.mapcfg = x.oid)) as content
        from pg_catalog.pg_ts_config x where ${own('pg_ts_config', 'x.oid')}`,
    },
    {
      kind: 'text search dictionary',
      sql: `select ${address('pg_ts_dict', 'x.oid')} as name, pg_catalog.concat_ws('|', pg_catalog.pg_get_userbyid(x.dictowner), x.dictinitoption,
          ${address('pg_ts_template', 'x.dicttemplate')}) as content from pg_catalog.pg_ts_dict x where ${own('pg_ts_dict', 'x.oid')}`,
    },
    {
      kind: 'text search parser',
      sql: `select ${address('pg_ts_parser', 'x.oid')} as name, pg_catalog.concat_ws('|', x.prsstart, x.prstoken, x.prsend, x.prsheadline, x.prslextype) as content
        from pg_catalog.pg_ts_parser x where ${own('pg_ts_parser', 'x.oid')}`,
    },
    {
      kind: 'text search template',
      sql: `select ${address('pg_ts_template', 'x.oid')} as name, pg_catalog.concat_ws('|', x.tmplinit, x.tmpllexize) as content
        from pg_catalog.pg_ts_template x where ${own('pg_ts_template', 'x.oid')}`,
    },
  ];
}
