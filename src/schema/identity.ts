import type { SchemaSection } from '../model/report.ts';
import { ofExtension, RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName } from '../postgres/sql/quote.ts';

/** Kinds of objects that PostgreSQL can rename, as its own statements call them. */
export type ObjectKind =
  | 'schema'
  | 'table'
  | 'view'
  | 'materialized view'
  | 'foreign table'
  | 'sequence'
  | 'index'
  | 'type'
  | 'domain'
  | 'column'
  | 'attribute'
  | 'constraint'
  | 'domain constraint'
  | 'trigger'
  | 'policy'
  | 'rule'
  | 'enum value'
  | 'function'
  | 'procedure'
  | 'aggregate'
  | 'collation'
  | 'statistics'
  | 'event trigger'
  | 'publication';

/** One object under its present name; its key stays the same if it is renamed. */
export interface Identified {
  /** Catalogue, OID and, for a column, its attnum: survives every rename. */
  readonly key: string;
  readonly kind: ObjectKind;
  readonly name: string;
  /** Key of the schema, relation or type in which the name is unique; null for names of the whole database. */
  readonly within: string | null;
  /** Argument types, as ALTER FUNCTION takes them. */
  readonly args: string | null;
  /** The object follows another one if that is renamed or moved: an inherited column, a constraint's index. */
  readonly follows: 'name' | 'schema' | null;
  /** For constraints: its index, which has the same name always. */
  readonly index: string | null;
  readonly partition: { readonly of: string; readonly bound: string } | null;
  /** false for an index that is not valid, or a constraint that is not validated. */
  readonly valid: boolean;
}

export type CatalogueIdentity = ReadonlyMap<string, Identified>;

const NAMESPACES = `
select 'pg_namespace:' || n.oid as key, 'schema' as kind, n.nspname as name
from pg_catalog.pg_namespace n
where ${USER_SCHEMA} and not ${ofExtension('pg_namespace', 'n.oid')}`;

const RELATIONS = `
select 'pg_class:' || c.oid as key,
  case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table'
    when 'S' then 'sequence' when 'i' then 'index' when 'I' then 'index' when 'c' then 'type' else 'table' end as kind,
  c.relname as name, 'pg_namespace:' || c.relnamespace as within,
  case when con.oid is not null then 'name'
    when c.relkind in ('i', 'I') or owned.objid is not null then 'schema' end as follows,
  case when c.relispartition and c.relkind in ('r', 'p', 'f') then 'pg_class:' || i.inhparent end as parent,
  case when c.relispartition and c.relkind in ('r', 'p', 'f') then pg_catalog.pg_get_expr(c.relpartbound, c.oid) end as bound,
  coalesce(x.indisvalid, true) as valid
from ${RELATIONS_AND_SCHEMAS}
left join pg_catalog.pg_index x on x.indexrelid = c.oid
left join pg_catalog.pg_constraint con on con.conindid = c.oid and con.contype in ('p', 'u', 'x')
left join pg_catalog.pg_inherits i on i.inhrelid = c.oid and c.relispartition
left join pg_catalog.pg_depend owned on c.relkind = 'S' and owned.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
  and owned.objid = c.oid and owned.refclassid = owned.classid and owned.refobjsubid > 0 and owned.deptype in ('a', 'i')
where c.relkind in ('r', 'p', 'v', 'm', 'f', 'S', 'i', 'I', 'c')
  and ${USER_SCHEMA} and not ${ofExtension('pg_class', 'c.oid')}`;

const COLUMNS = `
select 'pg_attribute:' || a.attrelid || '.' || a.attnum as key,
  case c.relkind when 'c' then 'attribute' else 'column' end as kind,
  a.attname as name, 'pg_class:' || a.attrelid as within,
  case when a.attinhcount > 0 then 'name' end as follows
from pg_catalog.pg_attribute a
join pg_catalog.pg_class c on c.oid = a.attrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'p', 'v', 'm', 'f', 'c')
  and ${USER_SCHEMA}`;

// Renaming a check or not-null constraint reaches the children that inherit it; the other kinds are renamed one by one.
const CONSTRAINTS = `
select 'pg_constraint:' || con.oid as key,
  case when con.conrelid = 0 then 'domain constraint' else 'constraint' end as kind,
  con.conname as name,
  case when con.conrelid = 0 then 'pg_type:' || con.contypid else 'pg_class:' || con.conrelid end as within,
  case when con.contype in ('c', 'n') and con.coninhcount > 0 then 'name' end as follows,
  case when con.contype in ('p', 'u', 'x') then 'pg_class:' || con.conindid end as index,
  -- A constraint that is NOT ENFORCED, from version 18 on, is not to be validated.
  con.convalidated or coalesce(pg_catalog.to_jsonb(con) ->> 'conenforced', 'true') = 'false' as valid
from pg_catalog.pg_constraint con
join pg_catalog.pg_namespace n on n.oid = con.connamespace
where con.contype <> 't' and ${USER_SCHEMA}`;

const OTHER_KINDS: readonly string[] = [
  `select 'pg_trigger:' || t.oid as key, 'trigger' as kind, t.tgname as name, 'pg_class:' || t.tgrelid as within,
  case when t.tgparentid <> 0 then 'name' end as follows
from pg_catalog.pg_trigger t
join pg_catalog.pg_class c on c.oid = t.tgrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where not t.tgisinternal and ${USER_SCHEMA}`,
  `select 'pg_policy:' || p.oid as key, 'policy' as kind, p.polname as name, 'pg_class:' || p.polrelid as within
from pg_catalog.pg_policy p
join pg_catalog.pg_class c on c.oid = p.polrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where ${USER_SCHEMA}`,
  `select 'pg_rewrite:' || r.oid as key, 'rule' as kind, r.rulename as name, 'pg_class:' || r.ev_class as within
from pg_catalog.pg_rewrite r
join pg_catalog.pg_class c on c.oid = r.ev_class join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where r.rulename <> '_RETURN' and ${USER_SCHEMA}`,
  `select 'pg_enum:' || e.oid as key, 'enum value' as kind, e.enumlabel as name, 'pg_type:' || e.enumtypid as within
from pg_catalog.pg_enum e
join pg_catalog.pg_type t on t.oid = e.enumtypid join pg_catalog.pg_namespace n on n.oid = t.typnamespace
where ${USER_SCHEMA} and not ${ofExtension('pg_type', 't.oid')}`,
  `select 'pg_type:' || t.oid as key, case t.typtype when 'd' then 'domain' else 'type' end as kind, t.typname as name,
  'pg_namespace:' || t.typnamespace as within
from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
where t.typtype in ('d', 'e', 'r') and ${USER_SCHEMA} and not ${ofExtension('pg_type', 't.oid')}`,
  `select 'pg_proc:' || p.oid as key,
  case p.prokind when 'p' then 'procedure' when 'a' then 'aggregate' else 'function' end as kind, p.proname as name,
  'pg_namespace:' || p.pronamespace as within, pg_catalog.pg_get_function_identity_arguments(p.oid) as args
from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where ${USER_SCHEMA} and not ${ofExtension('pg_proc', 'p.oid')}`,
  `select 'pg_collation:' || o.oid as key, 'collation' as kind, o.collname as name, 'pg_namespace:' || o.collnamespace as within
from pg_catalog.pg_collation o join pg_catalog.pg_namespace n on n.oid = o.collnamespace
where ${USER_SCHEMA} and not ${ofExtension('pg_collation', 'o.oid')}`,
  `select 'pg_statistic_ext:' || s.oid as key, 'statistics' as kind, s.stxname as name, 'pg_namespace:' || s.stxnamespace as within
from pg_catalog.pg_statistic_ext s join pg_catalog.pg_namespace n on n.oid = s.stxnamespace
where ${USER_SCHEMA}`,
  `select 'pg_event_trigger:' || e.oid as key, 'event trigger' as kind, e.evtname as name
from pg_catalog.pg_event_trigger e
where not ${ofExtension('pg_event_trigger', 'e.oid')}`,
  `select 'pg_publication:' || p.oid as key, 'publication' as kind, p.pubname as name from pg_catalog.pg_publication p`,
];

interface Row {
  key: string;
  kind: ObjectKind;
  name: string;
  within?: string | null;
  args?: string | null;
  follows?: 'name' | 'schema' | null;
  index?: string | null;
  parent?: string | null;
  bound?: string | null;
  valid?: boolean;
}

/** Reads the present names of all objects in the user's schemas. */
export async function readIdentity(session: Session): Promise<CatalogueIdentity> {
  const identity = new Map<string, Identified>();
  for (const rows of await session.queryAll<Row>([
    NAMESPACES,
    RELATIONS,
    COLUMNS,
    CONSTRAINTS,
    ...OTHER_KINDS,
  ]))
    for (const row of rows) identity.set(row.key, identified(row));
  return identity;
}

function identified(row: Row): Identified {
  const { key, kind, name, within = null, args = null, follows = null, index = null } = row;
  const partition = row.parent && row.bound ? { of: row.parent, bound: row.bound } : null;
  return { key, kind, name, within, args, follows, index, partition, valid: row.valid ?? true };
}

/** An object's name with the names of all it lies in: `public`, `orders`, `email`. */
export function path(object: Identified, identity: CatalogueIdentity): string[] {
  const outer = object.within === null ? undefined : identity.get(object.within);
  return outer ? [...path(outer, identity), object.name] : [object.name];
}

/** For reports: `public.orders.email`, `public.total(integer)`. */
export function label(object: Identified, identity: CatalogueIdentity): string {
  const name = displayName(...path(object, identity));
  return object.args === null ? name : `${name}(${object.args})`;
}

/** Lists objects that a command left half-done: indexes that no query uses, constraints that old rows may violate. */
export function leftovers(before: CatalogueIdentity, after: CatalogueIdentity): SchemaSection['leftovers'] {
  const found: SchemaSection['leftovers'] = [];
  for (const object of after.values()) {
    if (object.valid) continue;
    const kind = object.kind === 'index' ? 'invalid index' : 'constraint not valid';
    found.push({ kind, object: label(object, after), preexisting: before.get(object.key)?.valid === false });
  }
  return found.sort((a, b) => a.object.localeCompare(b.object));
}
