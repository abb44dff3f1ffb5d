import { sqlstateOf } from '../../errors.ts';
import type { EffectFacts, LostKey, LostSearch } from '../../model/effect-facts.ts';
import { RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, identifier } from '../../postgres/sql/quote.ts';

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

/** Before the operator of an exclusion constraint. */
const WITH = ' WITH ';

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
      coalesce((select '${WITH}' || o.oprname from pg_catalog.pg_operator o where o.oid = k.conexclop[u.place::pg_catalog.int4] and o.oprname <> '='), '') as operator
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
  const lostKeys: LostKey[] = [];
  const lostSearches: LostSearch[] = [];
  for (const former of before) {
    if (kept.has(former.oid)) continue;
    const { isConstraint, parts, predicate, isPlain } = former;
    if (former.refuses) {
      // NULLs are not equal: such a row duplicates none.
      const compared = former.nullsEqual ? [] : parts.filter((part) => !part.includes(WITH));
      const others = await forAllRows(session, former, after.filter(refusing(former)), compared);
      const [built] = others;
      const builtAs = built ? named(built).index : null;
      if (!others.some(({ oid }) => known.has(oid)))
        lostKeys.push({ ...named(former), isConstraint, parts, predicate, isPlain, builtAs });
    }
    const [part = ''] = parts;
    const searched = part === '' || part.includes(WITH) ? [] : [part];
    if ((await forAllRows(session, former, after.filter(finding(former)), searched)).length === 0)
      lostSearches.push({ ...named(former), isConstraint, part });
  }
  return { lostKeys, lostSearches };
}

function named({ schema, relation, name }: Index): { relation: string; index: string } {
  return { relation: displayName(schema, relation), index: displayName(schema, name) };
}

/** Keys of the same table that refuse each row which a former one refused, if their predicate lets them. Fewer parts are equal more often. */
function refusing(former: Index): (key: Index) => boolean {
  return (key) => {
    const isWithin =
      (isNamesake(key, former) && key.parts.every((part) => former.parts.includes(part))) ||
      (key.table === former.table && key.places.every((place) => former.places.includes(place)));
    return key.refuses && isWithin && (key.nullsEqual || !former.nullsEqual);
  };
}

/** Indexes of the same table that have the first part of a former one. */
function finding(former: Index): (index: Index) => boolean {
  const [part = '', place = ''] = [former.parts[0], former.places[0]];
  return (index) =>
    (isNamesake(index, former) && index.parts.includes(part)) ||
    (index.table === former.table && index.places.includes(place));
}

/** The same table, or another one under its name. */
function isNamesake(index: Index, former: Index): boolean {
  return (
    index.table === former.table || (index.schema === former.schema && index.relation === former.relation)
  );
}

/** Keeps the indexes that have all rows which a former one had, as far as none of these parts is NULL. */
async function forAllRows(
  session: Session,
  former: Index,
  indexes: readonly Index[],
  notNull: readonly string[],
): Promise<Index[]> {
  const found: Index[] = [];
  for (const index of indexes) {
    const { predicate } = index;
    if (
      predicate === null ||
      predicate === former.predicate ||
      (await implies(session, former, notNull, { ...index, predicate }))
    )
      found.push(index);
  }
  return found;
}

/**
 * Asks the planner whether the predicate of a former index implies that of another one: it takes a partial index only if the condition
 * of the query does. The table that it is asked about has no rows and no other index, and is rolled back.
 */
async function implies(
  session: Session,
  former: Index,
  notNull: readonly string[],
  { schema, relation, predicate }: Index & { predicate: string },
): Promise<boolean> {
  const known = former.predicate === null ? [] : [`(${former.predicate})`];
  const conditions = [...known, ...notNull.map((part) => `(${part}) IS NOT NULL`)];
  if (conditions.length === 0) return false;
  try {
    const rows = await session.queryAll<{ 'QUERY PLAN': string }>([
      'BEGIN READ WRITE',
      "SET LOCAL statement_timeout = '1s'",
      'SET LOCAL enable_seqscan = off',
      `CREATE TEMPORARY TABLE implied AS SELECT * FROM ${identifier(schema)}.${identifier(relation)} WITH NO DATA`,
      `CREATE INDEX ON pg_temp.implied ((1)) WHERE ${predicate}`,
      `EXPLAIN (COSTS OFF) SELECT FROM pg_temp.implied WHERE ${conditions.join(' AND ')}`,
    ]);
    // The first line has the scan; others repeat the condition.
    return /^(?:Index|Bitmap)/.test(rows.at(-1)?.[0]?.['QUERY PLAN'] ?? '');
  } catch (error) {
    // A column of the former index may have been dropped or renamed.
    if (sqlstateOf(error) === undefined) throw error;
    return false;
  } finally {
    await session.query('ROLLBACK');
  }
}
