import { USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, identifier } from '../../postgres/sql/quote.ts';

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
select distinct u.relation::pg_catalog.text || '.' || u.num::pg_catalog.text as id, n.nspname as schema, c.relname as table, a.attname as column, m.nspname as "sequenceSchema", s.relname as sequence
from pg_catalog.pg_class s
join pg_catalog.pg_namespace m on m.oid = s.relnamespace
join lateral (
  select d.refobjid as relation, d.refobjsubid as num from pg_catalog.pg_depend d
  where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = s.oid and d.deptype = 'i' and d.refobjsubid > 0
  union select f.adrelid, f.adnum from pg_catalog.pg_depend d join pg_catalog.pg_attrdef f on f.oid = d.objid
  where d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass
    and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid = s.oid) u on true
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

interface Filled {
  readonly id: string;
  readonly schema: string;
  readonly table: string;
  readonly column: string;
  readonly sequenceSchema: string;
  readonly sequence: string;
}

interface Numbers {
  readonly next: string;
  readonly greatest: string | null;
  readonly behind: boolean | null;
  readonly beyond: boolean;
  readonly increment: string;
}

/** Reads the sequences that fill unique columns. */
export async function readSequences(session: Session): Promise<SequenceState[]> {
  const filled = await session.query<Filled>(FILLED);
  if (filled.length === 0) return [];
  const numbers = await session.queryAll<Numbers>(filled.map(comparison));
  return filled.flatMap((each, index): SequenceState[] => {
    const [row] = numbers[index] ?? [];
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

function comparison(each: Filled): string {
  const column = identifier(each.column);
  return `select next::text, greatest::text, next > seqmax or next < seqmin as beyond,
    seqincrement::text as increment, next > seqmax or next < seqmin or next <= greatest and (seqincrement > 0 or next >= least) as behind
  from (select s.last_value::numeric + case when s.is_called then q.seqincrement else 0 end as next, q.*,
    (select max(${column}) from ${tableOf(each)}) as greatest, (select min(${column}) from ${tableOf(each)}) as least
    from ${sequenceOf(each)} s, pg_catalog.pg_sequence q
    where q.seqrelid = '${sequenceOf(each).replaceAll("'", "''")}'::pg_catalog.regclass) n`;
}
