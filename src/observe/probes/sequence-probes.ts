import { USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, identifier, literal } from '../../postgres/sql/quote.ts';

/** The next value of a sequence, and the greatest one of the column that it fills. */
export interface SequenceState {
  /** The column by its number and its table's OID, which stay if they are renamed. */
  readonly id: string;
  readonly relation: string;
  readonly column: string;
  readonly sequence: string;
  readonly next: string;
  readonly greatest: string;
  /** Its next value is taken or will be, or it has none. */
  readonly behind: boolean;
  /** The next value is beyond the limits of the sequence. */
  readonly isBeyond: boolean;
  readonly increment: string;
  /** Shows both numbers. */
  readonly sql: string;
}

// Columns that a unique index leads with, so that the greatest value is found at once. A text with a number in it has another order.
const FILLED = `
with filled as materialized (
  select d.objid as sequence, d.refobjid as relation, d.refobjsubid as num from pg_catalog.pg_depend d
  where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.deptype = 'i' and d.refobjsubid > 0
  union select d.refobjid, f.adrelid, f.adnum from pg_catalog.pg_depend d join pg_catalog.pg_attrdef f on f.oid = d.objid
  where d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass)
select u.relation::pg_catalog.text || '.' || u.num::pg_catalog.text as id, n.nspname as schema, c.relname as table, a.attname as column, m.nspname as "sequenceSchema", s.relname as sequence
from filled u
join pg_catalog.pg_class s on s.oid = u.sequence
join pg_catalog.pg_namespace m on m.oid = s.relnamespace
join pg_catalog.pg_class c on c.oid = u.relation
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = u.num
join pg_catalog.pg_type t on t.oid = a.atttypid and t.typcategory = 'N'
where s.relkind = 'S' and c.relkind in ('r', 'p') and not c.relispartition and ${USER_SCHEMA}
  and case when s.relkind = 'S' then pg_catalog.has_sequence_privilege(s.oid, 'SELECT') end
  and exists (select from pg_catalog.pg_index i where i.indrelid = c.oid and i.indisunique and i.indisvalid
    and i.indpred is null and i.indnkeyatts = 1 and (i.indkey::pg_catalog.int2[])[0] = u.num)
order by 2, 3, 4
limit 1000`;

/** So many sequences by one query, which takes half the time of as many queries. Each holds the locks of its tables and their indexes. */
const AT_ONCE = 50;

interface Filled {
  readonly id: string;
  readonly schema: string;
  readonly table: string;
  readonly column: string;
  readonly sequenceSchema: string;
  readonly sequence: string;
}

interface Numbers {
  /** The place in the list of questions. */
  readonly place: number;
  readonly next: string;
  readonly greatest: string | null;
  readonly behind: boolean | null;
  readonly beyond: boolean;
  readonly increment: string;
}

/** Reads the sequences that fill unique columns. */
export async function readSequences(session: Session): Promise<SequenceState[]> {
  const filled = await session.query<Filled>(FILLED);
  const asked = filled.map(stateOf);
  const parts = Array.from({ length: Math.ceil(asked.length / AT_ONCE) }, (_, part) =>
    comparison(asked.slice(part * AT_ONCE, (part + 1) * AT_ONCE)),
  );
  const numbers = (await Promise.all(parts.map((sql) => session.query<Numbers>(sql)))).flat();
  const rows = new Map(numbers.map((row) => [row.place, row]));
  return filled.flatMap((each, place): SequenceState[] => {
    const row = rows.get(place);
    if (!row || row.greatest === null) return [];
    return [
      {
        id: each.id,
        relation: displayName(each.schema, each.table),
        column: displayName(each.column),
        sequence: displayName(each.sequenceSchema, each.sequence),
        next: row.next,
        greatest: row.greatest,
        behind: row.behind ?? false,
        isBeyond: row.beyond,
        increment: row.increment,
        sql: `SELECT last_value, is_called, (SELECT max(${identifier(each.column)}) FROM ${tableOf(each)}) FROM ${sequenceOf(each)}`,
      },
    ];
  });
}

const tableOf = ({ schema, table }: Filled) => `${identifier(schema)}.${identifier(table)}`;
const sequenceOf = ({ sequenceSchema, sequence }: Filled) =>
  `${identifier(sequenceSchema)}.${identifier(sequence)}`;

function stateOf(each: Filled, place: number): string {
  const column = identifier(each.column);
  return `select ${place} as place, ${literal(sequenceOf(each))}::pg_catalog.regclass as sequence, last_value, is_called,
    (select max(${column})::text from ${tableOf(each)}) as greatest, (select min(${column})::text from ${tableOf(each)}) as least
    from ${sequenceOf(each)}`;
}

function comparison(states: readonly string[]): string {
  return `select place, next::text, greatest, next > seqmax or next < seqmin as beyond, seqincrement::text as increment,
    next > seqmax or next < seqmin or next <= greatest::numeric and (seqincrement > 0 or next >= least::numeric) as behind
  from (select s.*, q.*, s.last_value::numeric + case when s.is_called then q.seqincrement else 0 end as next
    from (${states.join(' union all ')}) s join pg_catalog.pg_sequence q on q.seqrelid = s.sequence) n`;
}
