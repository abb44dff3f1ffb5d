import { type ChangedDefinition, IN_ALL_DATABASES } from '../../model/definition-kinds.ts';
import type { SchemaSection } from '../../model/report.ts';
import { USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { bare, displayName, lastPart } from '../../postgres/sql/quote.ts';
import { ACCESS_DEFINITIONS } from './access-definitions.ts';
import { type DefinitionParts, definitionsQuery, SUBJECTS_THERE } from './definition-parts.ts';
import { EXTENSION_DEFINITIONS } from './extension-definitions.ts';
import { FUNCTION_DEFINITIONS } from './function-definitions.ts';
import { ROLE_DEFINITIONS } from './role-definitions.ts';
import { TABLE_DEFINITIONS } from './table-definitions.ts';

/** Definitions of one moment by kind and name. */
export type Definitions = ReadonlyMap<
  string,
  Omit<ChangedDefinition, 'before' | 'after'> & { readonly text: string }
>;

/** Columns by their number, and expressions by their text, of extended statistics `s`. */
const STATISTICS_ITEMS = `
  select k.num::pg_catalog.text as place, a.attname::pg_catalog.text as item, false as is_expression
  from pg_catalog.unnest(s.stxkeys::pg_catalog.int2[]) as k (num)
  join pg_catalog.pg_attribute a on a.attrelid = s.stxrelid and a.attnum = k.num
  union all select e, e, true from pg_catalog.unnest(pg_catalog.pg_get_statisticsobjdef_expressions(s.oid)) as e`;

/** Tells if ANALYZE leaves out extended statistics `s`. */
const NOT_GATHERED = `coalesce(pg_catalog.to_jsonb(s) ->> 'stxstattarget' = '0', false)`;

/** Words in the body of a function that ask for the session or the time. */
const OF_THE_SESSION =
  '\\m(current_setting|current_user|session_user|current_role|now|current_timestamp|current_date|clock_timestamp)\\M';

/** Objects that may keep their name while their meaning changes. */
const DEFINITIONS: DefinitionParts = {
  always: `
select 'constraint' as kind, n.nspname as schema, c.relname as relation, k.conname as name,
  pg_catalog.regexp_replace(pg_catalog.pg_get_constraintdef(k.oid), ' NOT VALID$', '') as text
from pg_catalog.pg_constraint k join pg_catalog.pg_class c on c.oid = k.conrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where k.contype in ('f', 'p', 'u', 'x') and k.conparentid = 0 and ${USER_SCHEMA}
union all
select 'constraint', n.nspname, c.relname, k.conname,
  case when not k.convalidated and pg_catalog.to_jsonb(k) ->> 'conenforced' = 'false' then 'CHECK NOT ENFORCED' else 'CHECK ENFORCED' end
from pg_catalog.pg_constraint k join pg_catalog.pg_class c on c.oid = k.conrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where k.contype = 'c' and k.conislocal and ${USER_SCHEMA}
union all
select 'attribute', n.nspname, c.relname, a.attnum::pg_catalog.text, a.attname || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod)
from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'c' and a.attnum > 0 and not a.attisdropped and ${USER_SCHEMA}
union all
select 'setting', '', coalesce(r.rolname, 'all roles') || case d.setdatabase when 0 then '${IN_ALL_DATABASES}' else '' end,
  pg_catalog.split_part(s.setting, '=', 1), s.setting
from pg_catalog.pg_db_role_setting d
join pg_catalog.pg_database b on d.setdatabase in (0, b.oid) and b.datname = pg_catalog.current_database()
left join pg_catalog.pg_roles r on r.oid = d.setrole cross join pg_catalog.unnest(d.setconfig) as s (setting)
union all
select 'refreshable', n.nspname, c.relname, '', ''
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'm' and ${USER_SCHEMA} and exists (select from pg_catalog.pg_index i
  where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null)
union all
select 'null action', n.nspname, c.relname, k.conname, pg_catalog.pg_get_constraintdef(k.oid)
from pg_catalog.pg_constraint k join pg_catalog.pg_class c on c.oid = k.conrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where k.contype = 'f' and k.conparentid = 0 and 'n' in (k.confdeltype, k.confupdtype) and ${USER_SCHEMA}
  and exists (select from pg_catalog.pg_attribute a where a.attrelid = k.conrelid and a.attnotnull and a.attnum = any (k.conkey)
    and (k.confdeltype <> 'n' or coalesce(nullif(pg_catalog.to_jsonb(k) -> 'confdelsetcols', 'null') @> pg_catalog.to_jsonb(a.attnum), true)))
union all
select 'domain check', n.nspname, t.typname, k.conname, pg_catalog.string_agg(distinct pg_catalog.format('%I.%I', m.nspname, c.relname), ', ')
from pg_catalog.pg_constraint k join pg_catalog.pg_type t on t.oid = k.contypid join pg_catalog.pg_namespace n on n.oid = t.typnamespace
join pg_catalog.pg_attribute a on a.atttypid = t.oid and not a.attisdropped
join pg_catalog.pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p') and not c.relispartition
join pg_catalog.pg_namespace m on m.oid = c.relnamespace
where k.contype = 'c' and ${USER_SCHEMA}
group by 2, 3, 4
union all
select 'autovacuum off', n.nspname, c.relname, '', o.option_name || ' = ' || o.option_value
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
cross join lateral pg_catalog.pg_options_to_table(c.reloptions) o
where c.relkind in ('r', 'm') and ${USER_SCHEMA}
  and case when o.option_name = 'autovacuum_enabled' then not o.option_value::pg_catalog.bool else false end
union all
select 'no statistics', n.nspname, c.relname, a.attname, ''
from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where a.attstattarget = 0 and a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'p', 'm') and not c.relispartition and ${USER_SCHEMA}
  and a.atttypid not in ('pg_catalog.bytea'::pg_catalog.regtype, 'pg_catalog.json'::pg_catalog.regtype, 'pg_catalog.jsonb'::pg_catalog.regtype)`,
  rules: `
select 'rule', n.nspname, c.relname, r.rulename, pg_catalog.pg_get_ruledef(r.oid)
from pg_catalog.pg_rewrite r join pg_catalog.pg_class c on c.oid = r.ev_class join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where r.rulename <> '_RETURN' and ${USER_SCHEMA}`,
  functions: `
select 'rights', n.nspname, p.proname, pg_catalog.oidvectortypes(p.proargtypes),
  case when p.prosecdef then 'SECURITY DEFINER' else 'SECURITY INVOKER' end
from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where p.oid >= 16384 and ${USER_SCHEMA}
union all
select case p.provolatile when 'v' then 'volatile' else 'frozen' end, n.nspname, p.proname, pg_catalog.oidvectortypes(p.proargtypes),
  pg_catalog.string_agg(distinct pg_catalog.format('%I.%I', m.nspname, c.relname), ', ')
from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass and d.refobjid = p.oid
left join pg_catalog.pg_policy q on d.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass and q.oid = d.objid
left join pg_catalog.pg_rewrite w on d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass and w.oid = d.objid
join pg_catalog.pg_class c on c.oid = coalesce(q.polrelid, w.ev_class) join pg_catalog.pg_namespace m on m.oid = c.relnamespace
where (p.provolatile = 'v' or p.provolatile = 'i' and coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc) ~* '${OF_THE_SESSION}') and p.oid >= 16384 and ${USER_SCHEMA}
group by 1, 2, 3, 4`,
  partitionedTables: `
select 'default partition', n.nspname, c.relname, '', d.relname
from pg_catalog.pg_partitioned_table t join pg_catalog.pg_class d on d.oid = t.partdefid
join pg_catalog.pg_class c on c.oid = t.partrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace`,
  defaults: `
select 'generated', n.nspname, c.relname, a.attname, pg_catalog.pg_get_expr(d.adbin, d.adrelid)
from pg_catalog.pg_attribute a join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
join pg_catalog.pg_class c on c.oid = a.attrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where a.attgenerated <> '' and not a.attisdropped and not c.relispartition and ${USER_SCHEMA}`,
  publications: `
select 'sent', '', p.pubname, o.name, ''
from pg_catalog.pg_publication p cross join lateral
  (values ('INSERT', p.pubinsert), ('UPDATE', p.pubupdate), ('DELETE', p.pubdelete), ('TRUNCATE', p.pubtruncate)) o (name, sent)
where o.sent
union all
select 'filter', t.schemaname, t.tablename, t.pubname, pg_catalog.to_jsonb(t) ->> 'rowfilter'
from pg_catalog.pg_publication_tables t where pg_catalog.to_jsonb(t) ->> 'rowfilter' is not null
union all
select 'partitions sent', '', p.pubname, '', case when p.pubviaroot then 'their partitioned table' else 'each partition' end
from pg_catalog.pg_publication p where exists (select from pg_catalog.pg_publication_tables t
  join pg_catalog.pg_namespace n on n.nspname = t.schemaname join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = t.tablename
  where t.pubname = p.pubname and case when p.pubviaroot then c.relkind = 'p' else c.relispartition and not exists (
    select from pg_catalog.pg_publication_rel r where r.prpubid = p.oid and r.prrelid = c.oid) end)`,
  statistics: `
select 'statistics', n.nspname, c.relname, a.place || ' ' || b.place, a.item || case when a.place = b.place then '' else ', ' || b.item end
from pg_catalog.pg_statistic_ext s join pg_catalog.pg_class c on c.oid = s.stxrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
cross join lateral (${STATISTICS_ITEMS}) a cross join lateral (${STATISTICS_ITEMS}) b
where (a.place < b.place or a.place = b.place and a.is_expression) and not ${NOT_GATHERED} and ${USER_SCHEMA}
union all
select case when ${NOT_GATHERED} then 'statistics off' else 'statistics object' end, n.nspname, c.relname, s.stxname,
  case when ${NOT_GATHERED} then pg_catalog.format('%I.%I', m.nspname, s.stxname) else pg_catalog.pg_get_statisticsobjdef(s.oid) end
from pg_catalog.pg_statistic_ext s join pg_catalog.pg_class c on c.oid = s.stxrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_namespace m on m.oid = s.stxnamespace
where ${USER_SCHEMA}`,
};

const ALL_DEFINITIONS = [
  DEFINITIONS,
  ACCESS_DEFINITIONS,
  FUNCTION_DEFINITIONS,
  EXTENSION_DEFINITIONS,
  ROLE_DEFINITIONS,
  TABLE_DEFINITIONS,
];

interface Row {
  readonly kind: ChangedDefinition['kind'];
  readonly schema: string;
  readonly relation: string;
  readonly name: string;
  readonly text: string;
}

/** Reads the definitions as they are now. */
export async function readDefinitions(session: Session): Promise<Definitions> {
  const [there] = await session.query<Parameters<typeof definitionsQuery>[1]>(SUBJECTS_THERE);
  if (!there) throw new Error('SELECT without FROM has a row');
  const rows = await session.query<Row>(definitionsQuery(ALL_DEFINITIONS, there));
  return new Map(
    rows.map(({ kind, schema, relation, name, text }) => {
      const owner = schema === '' ? relation : displayName(schema, relation);
      return [keyOf({ kind, relation: owner, name }), { kind, relation: owner, name, text }];
    }),
  );
}

function keyOf({ kind, relation, name }: Pick<ChangedDefinition, 'kind' | 'relation' | 'name'>): string {
  return `${kind} ${relation} ${name}`;
}

/** Kinds of which a new one is a change. */
const COUNTS_IF_NEW: readonly ChangedDefinition['kind'][] = [
  'rule',
  'setting',
  'filter',
  'null action',
  'open',
  'open function',
  'past policies',
  'autovacuum off',
  'no statistics',
  'statistics off',
  'insert without sequence',
  'idle policy',
  'idle defaults',
  'volatile',
  'frozen',
  'wider policy',
  'policy',
  'open later',
  'anonymous',
  'anonymous view',
  'anonymous later',
  'called without a login',
  'callers',
  'role',
  'membership',
  'ranges',
  'short sequence',
];
/** Kinds of which a missing one is a change. */
const COUNTS_IF_GONE: readonly ChangedDefinition['kind'][] = [
  'default partition',
  'sent',
  'generated',
  'refreshable',
  'statistics',
  'statistics object',
  'closed later',
  'left out',
  'owner only',
  'domain check',
  'callers',
  'role',
  'membership',
];

/** Leaves out definitions that the clone shares with other databases of its server, where others may change it in the meantime. */
export function ofOwnDatabase(changed: readonly ChangedDefinition[]): ChangedDefinition[] {
  return changed.filter(
    ({ kind, relation }) =>
      kind !== 'role' &&
      kind !== 'membership' &&
      !(kind === 'setting' && relation.endsWith(IN_ALL_DATABASES)),
  );
}

/** Lists the definitions that changed under their name, and those that are new or missing if that is the change. */
export function changedDefinitions(
  before: Definitions,
  after: Definitions,
  schema: SchemaSection,
): ChangedDefinition[] {
  const renames = lastingRenames(schema);
  const then = underNewNames(before, renames);
  const changed = [...after].flatMap(([key, { text, ...rest }]): ChangedDefinition[] => {
    const was = then.get(key)?.text ?? null;
    const isNew = was === null && COUNTS_IF_NEW.includes(rest.kind);
    const isOther = was !== null && was !== text && withNewNames(was, renames) !== unquoted(text);
    return isNew || isOther ? [{ ...rest, before: was, after: text }] : [];
  });
  const gone = [...then]
    .filter(([key, { kind }]) => COUNTS_IF_GONE.includes(kind) && !after.has(key))
    .map(([, { text, ...rest }]) => ({ ...rest, before: text, after: null }));
  return [...changed.sort(byKey), ...gone.sort(byKey)];
}

// Here, since few change and the server would sort all of them with their texts.
const byKey = (a: ChangedDefinition, b: ChangedDefinition) => (keyOf(a) < keyOf(b) ? -1 : 1);

type Renames = SchemaSection['renames'];

/** The renames after which no other object has the old name. */
function lastingRenames({ changes, renames }: SchemaSection): Renames {
  const taken = new Set([
    ...changes.filter(({ verb }) => verb === 'create').map(({ object }) => object),
    ...renames.map(({ to }) => to),
  ]);
  return renames.filter(({ from }) => !taken.has(from));
}

/** Puts the definitions under the new names of their schemas, tables, views and columns. */
function underNewNames(definitions: Definitions, renames: Renames): Definitions {
  const now = new Map(renames.map(({ from, to }) => [from, to]));
  return new Map(
    [...definitions.values()].map((each) => {
      const schema = renames.find(
        ({ kind, from }) => kind === 'schema' && each.relation.startsWith(`${from}.`),
      );
      const moved = schema ? `${schema.to}${each.relation.slice(schema.from.length)}` : each.relation;
      const relation = now.get(each.relation) ?? moved;
      const own = now.get(`${each.relation}.${displayName(each.name)}`);
      const name = own === undefined ? each.name : bare(own);
      return [keyOf({ ...each, relation, name }), { ...each, relation, name }];
    }),
  );
}

/** Writes a definition with the new names of tables, columns and functions, and without quotes. */
function withNewNames(text: string, renames: Renames): string {
  return renames.reduce((written, { kind, from, to }) => {
    const [then = '', now = ''] = [from, to].map((name) =>
      unquoted(kind === 'column' ? lastPart(name) : name.replace(/\(.*\)$/s, '')),
    );
    const pattern = new RegExp(`(?<![\\w$])${then.replace(/[^\w\u0080-\uffff]/g, '\\$&')}(?![\\w$])`, 'g');
    return written.replace(pattern, () => now);
  }, unquoted(text));
}

const unquoted = (text: string) => text.replaceAll('"', '');
