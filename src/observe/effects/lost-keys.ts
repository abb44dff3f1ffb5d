import type { LostKey } from '../../model/effect-facts.ts';
import type { SchemaSection } from '../../model/report.ts';
import { RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName } from '../../postgres/sql/quote.ts';

/** A unique index, or an exclusion constraint. */
interface Key {
  readonly oid: string;
  readonly table: string;
  readonly schema: string;
  readonly relation: string;
  readonly name: string;
  readonly isConstraint: boolean;
  /** What it compares: columns by name, expressions, and the operator. */
  readonly parts: readonly string[];
  /** The same with columns by number, which a rename leaves alone. */
  readonly places: readonly string[];
  readonly predicate: string | null;
  /** Two NULLs are duplicates. */
  readonly nullsEqual: boolean;
  /** A unique index of columns alone and of all rows. */
  readonly isPlain: boolean;
}

/** Those of one moment. */
export type Keys = readonly Key[];

/** Indexes of partitions belong to that of their table. */
const KEYS = `
select x.indexrelid::pg_catalog.text as oid, c.oid::pg_catalog.text as "table", n.nspname as schema, c.relname as relation, i.relname as name,
  k.oid is not null as "isConstraint", e.parts, e.places, pg_catalog.pg_get_expr(x.indpred, x.indrelid) as predicate,
  coalesce(pg_catalog.to_jsonb(x) ->> 'indnullsnotdistinct' = 'true', false) as "nullsEqual",
  x.indisunique and x.indexprs is null and x.indpred is null as "isPlain"
from pg_catalog.pg_index x join pg_catalog.pg_class i on i.oid = x.indexrelid
join ${RELATIONS_AND_SCHEMAS} on c.oid = x.indrelid
left join pg_catalog.pg_constraint k on k.conindid = x.indexrelid and k.contype in ('p', 'u', 'x')
cross join lateral (
  select pg_catalog.array_agg(p.part || p.operator order by p.place) as parts,
    pg_catalog.array_agg(case when p.num = 0 then p.part else p.num::pg_catalog.text end || p.operator order by p.place) as places
  from (select u.num, u.place, case when u.num = 0 then pg_catalog.pg_get_indexdef(x.indexrelid, u.place::pg_catalog.int4, true)
        else (select pg_catalog.quote_ident(a.attname) from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum = u.num) end as part,
      coalesce((select ' WITH ' || o.oprname from pg_catalog.pg_operator o where o.oid = k.conexclop[u.place::pg_catalog.int4] and o.oprname <> '='), '') as operator
    from pg_catalog.unnest(x.indkey::pg_catalog.int2[]) with ordinality u (num, place) where u.place <= x.indnkeyatts) p) e
where (x.indisunique or k.contype = 'x') and x.indisvalid and c.relkind in ('r', 'p') and not i.relispartition and ${USER_SCHEMA}`;

export async function readKeys(session: Session): Promise<Keys> {
  return session.query<Key & object>(KEYS);
}

/** Finds keys that are gone, if no other one of their table refuses the same rows. They may be gone with their table or columns. */
export async function lostKeys(
  session: Session,
  { changes }: SchemaSection,
  before: Keys,
): Promise<LostKey[]> {
  const isDropping = changes.some(
    ({ verb, kind }) => verb === 'drop' && (kind === 'index' || kind === 'constraint'),
  );
  if (!isDropping) return [];
  const after = await readKeys(session);
  const kept = new Set(after.map(({ oid }) => oid));
  return before
    .filter((key) => !kept.has(key.oid) && !after.some((other) => refusesAll(other, key)))
    .map(({ schema, relation, name, isConstraint, parts, predicate, isPlain }) => ({
      relation: displayName(schema, relation),
      index: displayName(schema, name),
      isConstraint,
      parts,
      predicate,
      isPlain,
    }));
}

/** Tells if a key refuses each row that another one of the same table refused. Fewer parts are equal more often. */
function refusesAll(key: Key, former: Key): boolean {
  const isSame = key.table === former.table;
  const isNamesake = key.schema === former.schema && key.relation === former.relation;
  const isWithin =
    ((isSame || isNamesake) && key.parts.every((part) => former.parts.includes(part))) ||
    (isSame && key.places.every((place) => former.places.includes(place)));
  const isForAll = key.predicate === null || key.predicate === former.predicate;
  return isWithin && isForAll && (key.nullsEqual || !former.nullsEqual);
}
