import type { SequenceSetBack } from '../../model/effect-facts.ts';
import { RELATIONS_AND_SCHEMAS, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { ifAnswered } from '../../postgres/session-helpers.ts';
import { displayName, identifier, literal } from '../../postgres/sql/quote.ts';

/** The next value of a sequence that no column owns. */
interface NextValue {
  readonly oid: string;
  readonly sequence: string;
  readonly next: bigint;
  readonly isRising: boolean;
}

/** Next values at one moment. */
export type NextValues = readonly NextValue[];

// The sequence of a serial or identity column is compared with the values of its column instead. One that cycles begins again without a command.
const UNOWNED = `
select c.oid::pg_catalog.text as oid, n.nspname as schema, c.relname as name, q.seqincrement::pg_catalog.text as increment
from pg_catalog.pg_sequence q join ${RELATIONS_AND_SCHEMAS} on c.oid = q.seqrelid
where c.relkind = 'S' and c.relpersistence <> 't' and not q.seqcycle and ${USER_SCHEMA}
  and pg_catalog.has_schema_privilege(n.oid, 'USAGE') and case when c.relkind = 'S' then pg_catalog.has_sequence_privilege(c.oid, 'SELECT') end
  and not exists (select from pg_catalog.pg_depend d
    where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = c.oid and d.deptype in ('a', 'i', 'e'))
limit 500`;

interface Unowned {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  readonly increment: string;
}

/** Columns whose default takes a value of the sequence. */
const FILLED = `
select n.nspname as schema, c.relname as table, a.attname as column,
  a.atttypid in ('pg_catalog.int2'::pg_catalog.regtype, 'pg_catalog.int4'::pg_catalog.regtype, 'pg_catalog.int8'::pg_catalog.regtype) as whole
from pg_catalog.pg_depend d join pg_catalog.pg_attrdef f on f.oid = d.objid
join ${RELATIONS_AND_SCHEMAS} on c.oid = f.adrelid
join pg_catalog.pg_attribute a on a.attrelid = f.adrelid and a.attnum = f.adnum
where d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
  and d.refobjid = $1 and not c.relispartition
order by 1, 2, 3`;

interface FilledColumn {
  readonly schema: string;
  readonly table: string;
  readonly column: string;
  /** It has a whole number. */
  readonly whole: boolean;
}

/** Reads the next values of the sequences that no column owns. */
export async function readNextValues(session: Session): Promise<NextValues> {
  const unowned = await session.query<Unowned & object>(UNOWNED);
  if (unowned.length === 0) return [];
  const values = unowned.map(
    ({ oid, schema, name }) =>
      `select ${literal(oid)} as oid, last_value::pg_catalog.text as last, is_called as called from ${identifier(schema)}.${identifier(name)}`,
  );
  const rows = await session.query<{ oid: string; last: string; called: boolean }>(
    values.join(' union all '),
  );
  const states = new Map(rows.map((row) => [row.oid, row]));
  return unowned.flatMap(({ oid, schema, name, increment }) => {
    const state = states.get(oid);
    if (!state) return [];
    const step = BigInt(increment);
    const next = BigInt(state.last) + (state.called ? step : 0n);
    return [{ oid, sequence: displayName(schema, name), next, isRising: step > 0n }];
  });
}

/** Finds the sequences whose next value is one that they have passed, unless all columns that they fill have lower values. */
export async function sequencesSetBack(session: Session, before: NextValues): Promise<SequenceSetBack[]> {
  if (before.length === 0) return [];
  const found: SequenceSetBack[] = [];
  for (const now of await readNextValues(session)) {
    // A sequence that is dropped and made again has another OID.
    const then =
      before.find(({ oid }) => oid === now.oid) ?? before.find(({ sequence }) => sequence === now.sequence);
    if (!then || (now.isRising ? now.next >= then.next : now.next <= then.next)) continue;
    const filled = await session.query<FilledColumn & object>(FILLED, [now.oid]);
    const areLower = filled.length > 0 && (await allBelow(session, filled, now));
    if (areLower) continue;
    found.push({
      sequence: now.sequence,
      before: String(then.next),
      after: String(now.next),
      fills: filled.map(({ schema, table, column }) => ({
        relation: displayName(schema, table),
        column: displayName(column),
      })),
    });
  }
  return found;
}

async function allBelow(
  session: Session,
  columns: readonly FilledColumn[],
  { next, isRising }: NextValue,
): Promise<boolean> {
  if (!columns.every(({ whole }) => whole)) return false;
  for (const { schema, table, column } of columns) {
    const name = identifier(column);
    const found = await ifAnswered(() =>
      session.query<{ has: boolean }>(
        `select exists (select from ${identifier(schema)}.${identifier(table)} where ${name} ${isRising ? '>=' : '<='} ${next}) as has`,
      ),
    );
    if (found?.[0]?.has !== false) return false;
  }
  return true;
}
