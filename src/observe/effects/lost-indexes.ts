import type { EffectFacts } from '../../model/effect-facts.ts';
import { RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName } from '../../postgres/sql/quote.ts';

/** An index of a table. */
interface Index {
  readonly oid: string;
  readonly table: string;
  readonly schema: string;
  readonly relation: string;
  readonly name: string;
  readonly isConstraint: boolean;
  /** It is unique, or of an exclusion constraint. */
  readonly refuses: boolean;
  /** Columns by name, expressions, and the operator of an exclusion constraint. */
  readonly parts: readonly string[];
  /** The same with columns by number, which a rename leaves alone. */
  readonly places: readonly string[];
  readonly predicate: string | null;
  /** Two NULLs are duplicates. */
  readonly nullsEqual: boolean;
  /** A unique index of columns alone and of all rows. */
  readonly isPlain: boolean;
}

/** The indexes at one moment. */
export type Indexes = readonly Index[];

/** Indexes of partitions belong to that of their table. */
const INDEXES = `
select x.indexrelid::pg_catalog.text as oid, c.oid::pg_catalog.text as "table", n.nspname as schema, c.relname as relation, i.relname as name,
  k.oid is not null as "isConstraint",
  x.indisunique or k.contype is not distinct from 'x' as refuses, e.parts, e.places, pg_catalog.pg_get_expr(x.indpred, x.indrelid) as predicate,
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
where x.indisvalid and c.relkind in ('r', 'p') and not i.relispartition and ${USER_SCHEMA}`;

export async function readIndexes(session: Session): Promise<Indexes> {
  return session.query<Index & object>(INDEXES);
}

/**
 * Finds dropped keys, if no other one of their table refuses the same rows, and dropped indexes, if no other one has their first column
 * or expression. Their table or columns may have been dropped too.
 */
export async function lostIndexes(
  session: Session,
  before: Indexes,
): Promise<Pick<EffectFacts, 'lostKeys' | 'lostSearches'>> {
  const after = await readIndexes(session);
  const kept = new Set(after.map(({ oid }) => oid));
  const known = new Set(before.map(({ oid }) => oid));
  const dropped = before.filter(({ oid }) => !kept.has(oid));
  const named = ({ schema, relation, name }: Index) => ({
    relation: displayName(schema, relation),
    index: displayName(schema, name),
  });
  return {
    lostKeys: dropped
      .filter(({ refuses }) => refuses)
      .flatMap((key) => {
        const { isConstraint, parts, predicate, isPlain } = key;
        const others = after.filter((other) => refusesAll(other, key));
        const [built] = others;
        if (others.some(({ oid }) => known.has(oid))) return [];
        const builtAs = built ? named(built).index : null;
        return [{ ...named(key), isConstraint, parts, predicate, isPlain, builtAs }];
      }),
    lostSearches: dropped
      .filter((index) => !after.some((other) => findsAll(other, index)))
      .map((index) => ({ ...named(index), isConstraint: index.isConstraint, part: index.parts[0] ?? '' })),
  };
}

/** Tells if a key refuses each row that another one of the same table refused. Fewer parts are equal more often. */
function refusesAll(key: Index, former: Index): boolean {
  const isWithin =
    (isNamesake(key, former) && key.parts.every((part) => former.parts.includes(part))) ||
    (key.table === former.table && key.places.every((place) => former.places.includes(place)));
  return key.refuses && isWithin && isForAll(key, former) && (key.nullsEqual || !former.nullsEqual);
}

/** Tells if an index of the same table has the first part of another one. */
function findsAll(index: Index, former: Index): boolean {
  const [part = '', place = ''] = [former.parts[0], former.places[0]];
  const has =
    (isNamesake(index, former) && index.parts.includes(part)) ||
    (index.table === former.table && index.places.includes(place));
  return has && isForAll(index, former);
}

/** The same table, or another one under its name. */
function isNamesake(index: Index, former: Index): boolean {
  return (
    index.table === former.table || (index.schema === former.schema && index.relation === former.relation)
  );
}

function isForAll({ predicate }: Index, former: Index): boolean {
  return predicate === null || predicate === former.predicate;
}
