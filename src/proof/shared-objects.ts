import { sqlstateOf } from '../errors.ts';
import { parseOwnedName } from '../ownership/mark.ts';
import type { Session } from '../postgres/connection/session.ts';

/** The nature of an object, and where it belongs. */
export interface SharedObject {
  readonly kind: 'database' | 'database settings' | 'slot' | 'setting' | 'dependencies' | 'other';
  /** The database that it is, or that it belongs to. */
  readonly database: string | null;
  /** The configuration file that holds a setting. */
  readonly file: string | null;
}

/** The catalogues that the databases of one cluster share, by object and property: content, so that a difference can be described. */
export interface SharedCatalogues {
  /** `role app` → `rolcreatedb` → `false`. */
  readonly objects: ReadonlyMap<string, Readonly<Record<string, string | null>>>;
  /** The same objects; those that are missing here are of another kind. */
  readonly natures: ReadonlyMap<string, SharedObject>;
  /** The same objects and properties → the xmin of the row that holds it; all others are in the row of `''`. */
  readonly rows: ReadonlyMap<string, Readonly<Record<string, number>>>;
  /** Every transaction that began to write later has this id or a higher one, in the 32 bits of an xmin. */
  readonly nextXid: number;
  /** Objects that the role may not read, in words. */
  readonly unread: readonly string[];
}

interface Probe {
  /** Default: `other`. */
  readonly kind?: SharedObject['kind'];
  readonly sql: string;
  readonly since?: number;
  /** The consequence for the report if the role may not run it. */
  readonly unread?: string;
  /** It reads what only some roles may. Checked first, because a refused statement is written to the server's log. */
  readonly reads?: 'passwords' | 'files';
}

const acl = (column: string) =>
  `(select pg_catalog.string_agg(i::text, ' ' order by i::text) from pg_catalog.unnest(${column}) i)`;
// Applications keep secrets in settings of their own (those with a dot), so these show a digest of their value.
const shownSetting = `case when pg_catalog.split_part(v, '=', 1) like '%.%'
  then pg_catalog.split_part(v, '=', 1) || '=…' || pg_catalog.left(pg_catalog.md5(v), 8) else v end`;
const xminOf = (table: string, condition: string) =>
  `(select x.xmin::text from pg_catalog.${table} x where ${condition})`;
const commentRow = (oid: string, catalogue: string) =>
  xminOf(
    'pg_shdescription',
    `x.objoid = ${oid} and x.classoid = 'pg_catalog.${catalogue}'::pg_catalog.regclass`,
  );
const setting = (condition: string) => `
  select pg_catalog.string_agg(${shownSetting}, ' ' order by v)
  from pg_catalog.pg_db_role_setting x, pg_catalog.unnest(x.setconfig) v where ${condition}`;

/** Each returns objects, with the database that an object belongs to, if any, and its properties. */
const PROBES: readonly Probe[] = [
  {
    sql: `select 'role ' || r.rolname as object, null as database, pg_catalog.to_jsonb(r) - '{oid,rolname,rolpassword,rolconfig}'::text[]
        || pg_catalog.jsonb_build_object('settings', (${setting('x.setrole = r.oid and x.setdatabase = 0')}),
          'comment', pg_catalog.shobj_description(r.oid, 'pg_authid')) as properties,
        pg_catalog.jsonb_build_object('settings', ${xminOf('pg_db_role_setting', 'x.setrole = r.oid and x.setdatabase = 0')},
          'comment', ${commentRow('r.oid', 'pg_authid')}) as rows
      from pg_catalog.pg_roles r where r.rolname !~ '^pg_'`,
  },
  {
    // The row's xmin changes if the password does, so the password itself need not be read.
    sql: `select 'role ' || r.rolname as object, null as database, pg_catalog.jsonb_build_object('written', r.xmin::text) as properties,
        pg_catalog.jsonb_build_object('', r.xmin::text) as rows
      from pg_catalog.pg_authid r where r.rolname !~ '^pg_'`,
    unread: 'a changed password of a role is not seen',
    reads: 'passwords',
  },
  {
    sql: `select 'membership of ' || pg_catalog.pg_get_userbyid(m.member) || ' in ' || pg_catalog.pg_get_userbyid(m.roleid)
        || ' granted by ' || pg_catalog.pg_get_userbyid(m.grantor) as object, null as database,
        pg_catalog.to_jsonb(m) - '{oid,roleid,member,grantor}'::text[] as properties,
        pg_catalog.jsonb_build_object('', m.xmin::text) as rows
      from pg_catalog.pg_auth_members m`,
  },
  {
    kind: 'database',
    sql: `select 'database ' || b.datname as object, b.datname as database, pg_catalog.jsonb_build_object('oid', b.oid::text,
        'owner', pg_catalog.pg_get_userbyid(b.datdba), 'connection limit', b.datconnlimit, 'allows connections', b.datallowconn,
        'is template', b.datistemplate, 'privileges', ${acl('b.datacl')},
        'tablespace', (select s.spcname from pg_catalog.pg_tablespace s where s.oid = b.dattablespace),
        'settings', (${setting('x.setrole = 0 and x.setdatabase = b.oid')}),
        'comment', pg_catalog.shobj_description(b.oid, 'pg_database')) as properties,
        pg_catalog.jsonb_build_object('', b.xmin::text, 'comment', ${commentRow('b.oid', 'pg_database')},
          'settings', ${xminOf('pg_db_role_setting', 'x.setrole = 0 and x.setdatabase = b.oid')}) as rows
      from pg_catalog.pg_database b`,
  },
  {
    kind: 'database settings',
    sql: `select 'settings of ' || pg_catalog.pg_get_userbyid(s.setrole) || ' in database ' || b.datname as object, b.datname as database,
        pg_catalog.jsonb_build_object('settings', (select pg_catalog.string_agg(${shownSetting}, ' ' order by v)
          from pg_catalog.unnest(s.setconfig) v)) as properties,
        pg_catalog.jsonb_build_object('', s.xmin::text) as rows
      from pg_catalog.pg_db_role_setting s join pg_catalog.pg_database b on b.oid = s.setdatabase where s.setrole <> 0`,
  },
  {
    sql: `select 'tablespace ' || s.spcname as object, null as database, pg_catalog.jsonb_build_object('owner',
        pg_catalog.pg_get_userbyid(s.spcowner), 'privileges', ${acl('s.spcacl')}, 'options', s.spcoptions::text,
        'comment', pg_catalog.shobj_description(s.oid, 'pg_tablespace')) as properties,
        pg_catalog.jsonb_build_object('', s.xmin::text, 'comment', ${commentRow('s.oid', 'pg_tablespace')}) as rows
      from pg_catalog.pg_tablespace s`,
  },
  {
    sql: `select 'parameter ' || p.parname as object, null as database, pg_catalog.jsonb_build_object('privileges', ${acl('p.paracl')}) as properties,
        pg_catalog.jsonb_build_object('', p.xmin::text) as rows
      from pg_catalog.pg_parameter_acl p`,
    since: 150_000,
  },
  {
    sql: `select 'replication origin ' || o.roname as object, null as database, '{}'::jsonb as properties
      from pg_catalog.pg_replication_origin o`,
    unread: 'pg_replication_origin: origins made or dropped are not seen',
  },
  {
    kind: 'slot',
    // The positions of an unused slot do not move by themselves.
    sql: `select 'replication slot ' || s.slot_name as object, s.database, pg_catalog.jsonb_build_object('type', s.slot_type,
        'plugin', s.plugin, 'database', s.database) || case when s.active then '{}' else pg_catalog.jsonb_strip_nulls(
        pg_catalog.jsonb_build_object('position', s.restart_lsn, 'confirmed position', s.confirmed_flush_lsn)) end as properties
      from pg_catalog.pg_replication_slots s where not s.temporary`,
  },
  {
    sql: `select 'subscription ' || s.subname as object, b.datname as database, pg_catalog.jsonb_build_object('enabled', s.subenabled,
        'owner', pg_catalog.pg_get_userbyid(s.subowner), 'slot', s.subslotname, 'publications', s.subpublications::text) as properties
      from pg_catalog.pg_subscription s join pg_catalog.pg_database b on b.oid = s.subdbid`,
    unread: 'pg_subscription: subscriptions made or dropped are not seen',
  },
  {
    kind: 'setting',
    // ALTER SYSTEM writes a file, without a transaction. Who may not read it may not write it. Values may be secrets.
    sql: `select 'setting ' || f.name || ' in ' || pg_catalog.regexp_replace(f.sourcefile, '^.*/', '') as object, null as database,
        pg_catalog.regexp_replace(f.sourcefile, '^.*/', '') as file,
        pg_catalog.jsonb_build_object('value', '…' || pg_catalog.left(pg_catalog.md5(pg_catalog.string_agg(f.setting, ' ' order by f.seqno)), 8)) as properties
      from pg_catalog.pg_file_settings f where f.name is not null group by 1, 3`,
    reads: 'files',
  },
];

/**
 * Objects of the target that refer to a role or a tablespace, without temporary relations, which other sessions create and drop
 * all the time. Only a session in the target can recognise these.
 */
const dependenciesOf = (database: number) => `
select 'dependencies on shared objects' as object, null as database, pg_catalog.jsonb_build_object(
  'count', pg_catalog.count(*)::text,
  'sum', pg_catalog.sum(pg_catalog.hash_record_extended(row(d.classid, d.objid, d.objsubid, d.refclassid, d.refobjid, d.deptype), 0))::text) as properties
from pg_catalog.pg_shdepend d
where d.dbid = ${database} and not exists (select from pg_catalog.pg_class c where c.oid = d.objid
  and d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and c.relpersistence = 't')
  and exists (select from pg_catalog.pg_database b where b.oid = ${database} and b.datname = pg_catalog.current_database())
having pg_catalog.count(*) > 0`;

const SERVER = `select pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text as xid,
  pg_catalog.current_setting('server_version_num')::int as n,
  pg_catalog.has_table_privilege('pg_catalog.pg_authid', 'SELECT') as passwords,
  pg_catalog.has_table_privilege('pg_catalog.pg_file_settings', 'SELECT')
    and pg_catalog.has_function_privilege('pg_catalog.pg_show_all_file_settings()', 'EXECUTE') as files`;
const INSUFFICIENT_PRIVILEGE = '42501';

interface ProbedObject {
  object: string;
  database: string | null;
  file?: string;
  properties: Record<string, unknown>;
  /** Missing for objects that are not in a catalogue of their own. */
  rows?: Record<string, string | null>;
}

/** Number of transaction ids; they wrap around. */
export const XID_EPOCH = 2 ** 32;

/**
 * Reads everything that a command could change outside its own database, except the databases that safemigrate made.
 * From a session in the target itself the dependencies of its objects on roles are covered too.
 */
export async function sharedCatalogues(session: Session, targetOid: number): Promise<SharedCatalogues> {
  const objects = new Map<string, Record<string, string | null>>();
  const natures = new Map<string, SharedObject>();
  const written = new Map<string, Record<string, number>>();
  const unread: string[] = [];
  const [server] = await session.query<{
    n: number;
    passwords: boolean;
    files: boolean;
    xid: string;
  }>(SERVER);
  const add = ({ kind = 'other' }: Probe, rows: readonly ProbedObject[]) => {
    for (const { object, database, file = null, properties, rows: xmins = {} } of rows) {
      if (database !== null && parseOwnedName(database)) continue;
      natures.set(object, { kind, database, file });
      objects.set(object, { ...objects.get(object), ...texts(properties) });
      written.set(object, { ...written.get(object), ...numbers(xmins) });
    }
  };
  const asked: Probe[] = [];
  for (const probe of PROBES) {
    if ((server?.n ?? 0) < (probe.since ?? 0)) continue;
    if (probe.reads === undefined || server?.[probe.reads]) asked.push(probe);
    else if (probe.unread !== undefined) unread.push(probe.unread);
  }
  asked.push({ kind: 'dependencies', sql: dependenciesOf(targetOid) });
  const together = await unlessRefused(() => session.queryAll<ProbedObject>(asked.map(({ sql }) => sql)));
  for (const [index, probe] of asked.entries()) {
    const { sql, unread: words } = probe;
    // If the server refused one of them, each is tried alone.
    const alone = () => session.query<ProbedObject>(sql);
    const rows = together?.[index] ?? (await (words === undefined ? alone() : unlessRefused(alone)));
    if (rows) add(probe, rows);
    else unread.push(words ?? '');
  }
  return { objects, natures, rows: written, nextXid: Number(server?.xid ?? 0) % XID_EPOCH, unread };
}

async function unlessRefused<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (sqlstateOf(error) !== INSUFFICIENT_PRIVILEGE) throw error;
    return undefined;
  }
}

function texts(properties: Record<string, unknown>): Record<string, string | null> {
  return Object.fromEntries(
    Object.entries(properties).map(([name, value]) => [
      name,
      value === null ? null : typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  );
}

function numbers(xmins: Record<string, string | null>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(xmins).flatMap(([name, xmin]) => (xmin === null ? [] : [[name, Number(xmin)]])),
  );
}
