import type { UnlistedLabels } from '../../model/effect-facts.ts';
import type { SchemaSection } from '../../model/report.ts';
import { USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { enumValues } from '../../postgres/sql/enum-values.ts';
import { type LabelList, labelLists, labelListsOfBody } from '../../postgres/sql/label-lists.ts';
import { bare, displayName, identifier, lastPart, literal, nameParts } from '../../postgres/sql/quote.ts';
import { signatureOf } from './broken-functions.ts';
import { type FunctionBody, readFunctionBodies } from './function-bodies.ts';

/** Expressions with constants of an enum type, which depend on it, and the partitions of tables by a list of its values. */
const USES = `
with t (oid) as (select u.oid from pg_catalog.pg_type e cross join lateral (values (e.oid), (e.typarray)) u (oid)
    where e.oid = $1::pg_catalog.regtype),
  d as (select distinct d.classid, d.objid from pg_catalog.pg_depend d
    where d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass and d.refobjid in (select oid from t))
select 'check' as kind, n.nspname as schema, c.relname as relation, k.conname as name,
  'SELECT ' || pg_catalog.pg_get_expr(k.conbin, k.conrelid) as text
from d join pg_catalog.pg_constraint k on d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass and k.oid = d.objid and k.contype = 'c' and k.conislocal
join pg_catalog.pg_class c on c.oid = k.conrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where ${USER_SCHEMA}
union all
select 'policy', n.nspname, c.relname, p.polname, pg_catalog.concat_ws(', ', 'SELECT true', pg_catalog.pg_get_expr(p.polqual, p.polrelid), pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid))
from d join pg_catalog.pg_policy p on d.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass and p.oid = d.objid
join pg_catalog.pg_class c on c.oid = p.polrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where ${USER_SCHEMA}
union all
select 'view', n.nspname, c.relname, '', pg_catalog.pg_get_viewdef(c.oid)
from d join pg_catalog.pg_rewrite w on d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass and w.oid = d.objid
join pg_catalog.pg_class c on c.oid = w.ev_class and c.relkind in ('v', 'm') join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where ${USER_SCHEMA}
union all
select 'partitions', n.nspname, c.relname, '', 'SELECT x = ANY (ARRAY[' || pg_catalog.string_agg(
  pg_catalog.substring(pg_catalog.pg_get_expr(b.relpartbound, b.oid), '[(](.*)[)]'), ', ') || '])'
from pg_catalog.pg_partitioned_table p
join pg_catalog.pg_attribute a on a.attrelid = p.partrelid and a.attnum = p.partattrs[0] and a.atttypid in (select oid from t)
join pg_catalog.pg_class c on c.oid = p.partrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_inherits i on i.inhparent = c.oid join pg_catalog.pg_class b on b.oid = i.inhrelid and b.relpartbound is not null
where p.partstrat = 'l' and p.partdefid = 0
group by 2, 3
order by 1, 2, 3, 4`;

const COLUMNS = `
select c.relname as relation, a.attname as column
from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p', 'v', 'm', 'f')
where a.atttypid = $1::pg_catalog.regtype and a.attnum > 0 and not a.attisdropped`;

type Use = Pick<UnlistedLabels, 'kind'> & {
  readonly schema: string;
  readonly relation: string;
  readonly name: string;
  readonly text: string;
};

/** A shorter list of words in the body of a function may be one of something else. */
const FEWEST_IN_BODY = 3;

/**
 * Finds lists in the database with all values of an enum type except the new ones: conditions, CASE without an ELSE, and partitions
 * without a DEFAULT one.
 */
export async function unlistedLabels(
  session: Session,
  { objects = [], renames }: SchemaSection,
): Promise<UnlistedLabels[]> {
  const found: UnlistedLabels[] = [];
  for (const { kind, object, before, after } of objects) {
    if (kind !== 'type' || before === null || after === null) continue;
    const renamed = renames.filter((each) => each.kind === 'enum value').map(({ to }) => bare(lastPart(to)));
    const known = new Set([...enumValues(before), ...renamed]);
    const labels = enumValues(after).filter((label) => !known.has(label));
    const others = enumValues(after).filter((label) => known.has(label));
    if (labels.length === 0 || others.length < 2) continue;
    found.push(...(await usesWithout(session, object, labels, others)));
  }
  return found;
}

/** Tells if a text has all of these words. */
function hasWords(text: string, ...words: readonly string[]): boolean {
  return words.every((word) =>
    new RegExp(`(?<![\\w$])${word.replace(/[^\w\u0080-\uffff]/g, '\\$&')}(?![\\w$])`, 'i').test(text),
  );
}

async function usesWithout(
  session: Session,
  type: string,
  labels: readonly string[],
  others: readonly string[],
): Promise<UnlistedLabels[]> {
  const lacks = ({ values }: LabelList) =>
    values.size === others.length && others.every((label) => values.has(label));
  const found: UnlistedLabels[] = [];
  const name = nameParts(type).map(identifier).join('.');
  const uses = await session.query<Use>(USES, [name]);
  for (const { kind, schema, relation, name: part, text } of uses) {
    const refuses = kind === 'check' || kind === 'partitions';
    if (!(await labelLists(text)).some((list) => lacks(list) && (!refuses || list.isAlone))) continue;
    const table = displayName(schema, relation);
    const object = part === '' ? table : `${table}.${displayName(part)}`;
    found.push({
      type,
      labels,
      kind,
      object,
      relation: table,
      refuses,
    });
  }
  if (others.length < FEWEST_IN_BODY) return found;
  // Another type may have the same values: the function has to name the type, or a column of it.
  const columns = await session.query<{ relation: string; column: string }>(COLUMNS, [name]);
  const names = ({ definition, tables }: FunctionBody) =>
    hasWords(definition, bare(lastPart(type))) ||
    columns.some(({ relation, column }) => hasWords(`${definition} ${tables.join(' ')}`, relation, column));
  const pattern = literal(others[0] ?? '').replace(/[^\w\u0080-\uffff]/g, '\\$&');
  for (const body of (await readFunctionBodies(session, pattern)).filter(names)) {
    const lists = (await labelListsOfBody(body)).filter(lacks);
    if (lists.length === 0) continue;
    const refuses = lists.some(({ fails }) => fails);
    found.push({ type, labels, kind: 'function', object: signatureOf(body), relation: null, refuses });
  }
  return found;
}
