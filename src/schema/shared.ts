import { sqlstateOf } from '../errors.ts';
import type { Session } from '../target/session.ts';
import { parseOwnedName } from '../upkeep/mark.ts';

/** What the databases of one cluster share, by object and property: content, so that a difference can be told. */
export interface SharedCatalogues {
  /** `role app` → `rolcreatedb` → `false`. */
  readonly objects: ReadonlyMap<string, Readonly<Record<string, string | null>>>;
  /** What the role may not read, in words. */
  readonly unread: readonly string[];
}

interface Probe {
  readonly sql: string;
  readonly since?: number;
  /** In words, for a role that may not run it. */
  readonly unread?: string;
  /** It reads pg_authid; asked beforehand, since a statement that is refused stands in the server's log. */
  readonly readsPasswords?: true;
}

const acl = (column: string) =>
  `(select pg_catalog.string_agg(i::text, ' ' order by i::text) from pg_catalog.unnest(${column}) i)`;
// Applications keep secrets in settings of their own (those with a dot), so these show a digest of their value.
const shownSetting = `case when pg_catalog.split_part(v, '=', 1) like '%.%'
  then pg_catalog.split_part(v, '=', 1) || '=…' || pg_catalog.left(pg_catalog.md5(v), 8) else v end`;
const setting = (condition: string) => `
  select pg_catalog.string_agg(${shownSetting}, ' ' order by v)
  from pg_catalog.pg_db_role_setting x, pg_catalog.unnest(x.setconfig) v where ${condition}`;

/** Each yields an object, the database that it belongs to if it is one, and its properties. */
const PROBES: readonly Probe[] = [
  {
    sql: `select 'role ' || r.rolname as object, null as database, pg_catalog.to_jsonb(r) - '{oid,rolname,rolpassword,rolconfig}'::text[]
        || pg_catalog.jsonb_build_object('settings', (${setting('x.setrole = r.oid and x.setdatabase = 0')}),
          'comment', pg_catalog.shobj_description(r.oid, 'pg_authid')) as properties
      from pg_catalog.pg_roles r where r.rolname !~ '^pg_'`,
  },
  {
    // The row's xmin stands for the password, which nobody needs to see to know that it was set.
    sql: `select 'role ' || r.rolname as object, null as database, pg_catalog.jsonb_build_object('written', r.xmin::text) as properties
      from pg_catalog.pg_authid r where r.rolname !~ '^pg_'`,
    unread: 'a changed password of a role is not seen',
    readsPasswords: true,
  },
  {
    sql: `select 'membership of ' || pg_catalog.pg_get_userbyid(m.member) || ' in ' || pg_catalog.pg_get_userbyid(m.roleid)
        || ' granted by ' || pg_catalog.pg_get_userbyid(m.grantor) as object, null as database,
        pg_catalog.to_jsonb(m) - '{oid,roleid,member,grantor}'::text[] as properties
      from pg_catalog.pg_auth_members m`,
  },
  {
    sql: `select 'database ' || b.datname as object, b.datname as database, pg_catalog.jsonb_build_object('oid', b.oid::text,
        'owner', pg_catalog.pg_get_userbyid(b.datdba), 'connection limit', b.datconnlimit, 'allows connections', b.datallowconn,
        'is template', b.datistemplate, 'privileges', ${acl('b.datacl')},
        'tablespace', (select s.spcname from pg_catalog.pg_tablespace s where s.oid = b.dattablespace),
        'settings', (${setting('x.setrole = 0 and x.setdatabase = b.oid')}),
        'comment', pg_catalog.shobj_description(b.oid, 'pg_database')) as properties
      from pg_catalog.pg_database b`,
  },
  {
    sql: `select 'settings of ' || pg_catalog.pg_get_userbyid(s.setrole) || ' in database ' || b.datname as object, b.datname as database,
        pg_catalog.jsonb_build_object('settings', (select pg_catalog.string_agg(${shownSetting}, ' ' order by v)
          from pg_catalog.unnest(s.setconfig) v)) as properties
      from pg_catalog.pg_db_role_setting s join pg_catalog.pg_database b on b.oid = s.setdatabase where s.setrole <> 0`,
  },
  {
    sql: `select 'tablespace ' || s.spcname as object, null as database, pg_catalog.jsonb_build_object('owner',
        pg_catalog.pg_get_userbyid(s.spcowner), 'privileges', ${acl('s.spcacl')}, 'options', s.spcoptions::text,
        'comment', pg_catalog.shobj_description(s.oid, 'pg_tablespace')) as properties
      from pg_catalog.pg_tablespace s`,
  },
  {
    sql: `select 'parameter ' || p.parname as object, null as database, pg_catalog.jsonb_build_object('privileges', ${acl('p.paracl')}) as properties
      from pg_catalog.pg_parameter_acl p`,
    since: 150_000,
  },
  {
    sql: `select 'replication origin ' || o.roname as object, null as database, '{}'::jsonb as properties
      from pg_catalog.pg_replication_origin o`,
    unread: 'pg_replication_origin: origins made or dropped are not seen',
  },
  {
    // A slot's positions move by themselves; that it is there does not.
    sql: `select 'replication slot ' || s.slot_name as object, s.database, pg_catalog.jsonb_build_object('type', s.slot_type,
        'plugin', s.plugin, 'database', s.database) as properties
      from pg_catalog.pg_replication_slots s where not s.temporary`,
  },
  {
    sql: `select 'subscription ' || s.subname as object, b.datname as database, pg_catalog.jsonb_build_object('enabled', s.subenabled,
        'owner', pg_catalog.pg_get_userbyid(s.subowner), 'slot', s.subslotname, 'publications', s.subpublications::text) as properties
      from pg_catalog.pg_subscription s join pg_catalog.pg_database b on b.oid = s.subdbid`,
    unread: 'pg_subscription: subscriptions made or dropped are not seen',
  },
];

/**
 * Objects of the target that name a role or a tablespace. Temporary relations come and go, and they can be told from
 * others only inside the target.
 */
const DEPENDENCIES = `
select 'dependencies on shared objects' as object, null as database, pg_catalog.jsonb_build_object(
  'count', pg_catalog.count(*)::text,
  'sum', pg_catalog.sum(pg_catalog.hash_record_extended(row(d.classid, d.objid, d.objsubid, d.refclassid, d.refobjid, d.deptype), 0))::text) as properties
from pg_catalog.pg_shdepend d
where d.dbid = $1 and not exists (select from pg_catalog.pg_class c where c.oid = d.objid
  and d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and c.relpersistence = 't')
  and exists (select from pg_catalog.pg_database b where b.oid = $1 and b.datname = pg_catalog.current_database())
having pg_catalog.count(*) > 0`;

const SERVER = `select pg_catalog.current_setting('server_version_num')::int as n,
  pg_catalog.has_table_privilege('pg_catalog.pg_authid', 'SELECT') as passwords`;
const INSUFFICIENT_PRIVILEGE = '42501';

interface Row {
  object: string;
  database: string | null;
  properties: Record<string, unknown>;
}

/**
 * Reads what a command could change outside its own database. Databases that safemigrate made are left out.
 * From a session in the target itself the dependencies of its objects on roles are covered too.
 */
export async function sharedCatalogues(session: Session, targetOid: number): Promise<SharedCatalogues> {
  const objects = new Map<string, Record<string, string | null>>();
  const unread: string[] = [];
  const [server] = await session.query<{ n: number; passwords: boolean }>(SERVER);
  const add = (rows: readonly Row[]) => {
    for (const { object, database, properties } of rows) {
      if (database !== null && parseOwnedName(database)) continue;
      objects.set(object, { ...objects.get(object), ...texts(properties) });
    }
  };
  for (const { sql, since = 0, unread: words, readsPasswords } of PROBES) {
    if ((server?.n ?? 0) < since) continue;
    if (readsPasswords && !server?.passwords) {
      unread.push(words ?? '');
      continue;
    }
    try {
      add(await session.query<Row>(sql));
    } catch (error) {
      if (words === undefined || sqlstateOf(error) !== INSUFFICIENT_PRIVILEGE) throw error;
      unread.push(words);
    }
  }
  add(await session.query<Row>(DEPENDENCIES, [targetOid]));
  return { objects, unread };
}

function texts(properties: Record<string, unknown>): Record<string, string | null> {
  return Object.fromEntries(
    Object.entries(properties).map(([name, value]) => [
      name,
      value === null ? null : typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  );
}

/** The differences in words: `role app: rolcreatedb false → true`, `role app created`. None when all is the same. */
export function compareShared(a: SharedCatalogues, b: SharedCatalogues): string[] {
  const found: string[] = [];
  for (const object of a.objects.keys()) if (!b.objects.has(object)) found.push(`${object} dropped`);
  for (const [object, now] of b.objects) {
    const then = a.objects.get(object);
    if (!then) found.push(`${object} created`);
    else found.push(...differences(object, then, now));
  }
  return found.sort();
}

function differences(
  object: string,
  then: Readonly<Record<string, string | null>>,
  now: Readonly<Record<string, string | null>>,
): string[] {
  // A property that only one of the two could read says nothing.
  const differing = Object.keys(now).filter((name) => name in then && then[name] !== now[name]);
  const told = differing.filter((name) => name !== 'written');
  if (object === 'dependencies on shared objects') return differing.length > 0 ? [`${object} changed`] : [];
  if (told.length === 0) return differing.length > 0 ? [`${object}: password changed, or set again`] : [];
  return told.map((name) => `${object}: ${name} ${then[name] ?? 'none'} → ${now[name] ?? 'none'}`);
}
