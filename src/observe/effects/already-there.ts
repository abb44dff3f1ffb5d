import type { AlreadyThere } from '../../model/effect-facts.ts';
import type { StatementSection } from '../../model/report.ts';
import { SearchPaths } from '../../model/search-paths.ts';
import type { ActionOf, Name, StatementFacts } from '../../model/statement-actions.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName } from '../../postgres/sql/quote.ts';

/** Statements as the command sent them, and how they were parsed. */
export interface ParsedStatements {
  readonly statements: readonly StatementSection[];
  readonly parsed: ReadonlyMap<number, StatementFacts>;
}

interface Asked {
  readonly statement: number;
  readonly path: readonly string[];
  readonly table: string;
}

interface AskedColumn extends Asked {
  readonly column: string;
  readonly type: string;
}

interface AskedIndex extends Asked, Pick<ActionOf<'create index'>, 'index' | 'method' | 'unique'> {
  readonly columns: readonly (string | null)[];
  readonly partial: boolean;
}

interface Row {
  readonly statement: number;
  readonly schema: string;
  readonly table: string;
  readonly name: string;
  readonly is: string | null;
  readonly asked: string;
}

/** The first table of that name in the path of the statement. */
const TABLE = `
  join lateral (select c.oid, n.oid as namespace, n.nspname, c.relname
    from pg_catalog.jsonb_array_elements_text(w.path) with ordinality p (schema, place)
    join pg_catalog.pg_namespace n on n.nspname = p.schema
    join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = w."table" and c.relkind in ('r', 'p')
    order by p.place limit 1) t on true`;

const COLUMNS = `
select w.statement, t.nspname as schema, t.relname as "table", w."column" as name, w.type as asked,
  pg_catalog.format_type(a.atttypid, a.atttypmod) as is
from pg_catalog.jsonb_to_recordset($1::pg_catalog.jsonb)
  as w (statement pg_catalog.int4, path pg_catalog.jsonb, "table" pg_catalog.text, "column" pg_catalog.text, type pg_catalog.text)${TABLE}
left join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attname = w."column" and a.attnum > 0 and not a.attisdropped
where a.attname is null or a.atttypid <> pg_catalog.to_regtype(w.type)`;

const INDEXES = `
select w.statement, t.nspname as schema, t.relname as "table", w.index as name, w.columns::pg_catalog.text as asked,
  pg_catalog.pg_get_indexdef(x.indexrelid) as is
from pg_catalog.jsonb_to_recordset($1::pg_catalog.jsonb)
  as w (statement pg_catalog.int4, path pg_catalog.jsonb, "table" pg_catalog.text, index pg_catalog.text, method pg_catalog.text,
    "unique" pg_catalog.bool, partial pg_catalog.bool, columns pg_catalog.jsonb)${TABLE}
join pg_catalog.pg_class i on i.relnamespace = t.namespace and i.relname = w.index
join pg_catalog.pg_index x on x.indexrelid = i.oid
join pg_catalog.pg_am m on m.oid = i.relam
where x.indrelid <> t.oid or x.indisunique <> w."unique" or m.amname <> w.method or (x.indpred is not null) <> w.partial
  or w.columns <> (select pg_catalog.jsonb_agg(a.attname order by u.place)
    from pg_catalog.unnest(x.indkey::pg_catalog.int2[]) with ordinality u (num, place)
    left join pg_catalog.pg_attribute a on a.attrelid = x.indrelid and a.attnum = u.num and u.num > 0
    where u.place <= x.indnkeyatts)`;

/** Finds the columns and indexes that IF NOT EXISTS asks for, and that the clone has with another definition or not at all. */
export async function readAlreadyThere(
  session: Session,
  { statements, parsed }: ParsedStatements,
  searchPath: readonly string[],
): Promise<AlreadyThere[]> {
  const paths = new SearchPaths(statements, parsed, searchPath);
  const columns: AskedColumn[] = [];
  const indexes: AskedIndex[] = [];
  for (const statement of statements.filter(({ error }) => error === null)) {
    const of = ({ schema, name }: Name): Asked => ({
      statement: statement.index,
      path: schema === null ? paths.at(statement) : [schema],
      table: name,
    });
    for (const action of parsed.get(statement.index)?.actions ?? [])
      if (action.does === 'create table')
        for (const { name, type } of action.columns ?? [])
          columns.push({ ...of(action.table), column: name, type: storedType(type) });
      else if (action.does === 'add column' && action.ifNotExists)
        columns.push({ ...of(action.table), column: action.column, type: storedType(action.type) });
      else if (
        action.does === 'create index' &&
        action.ifNotExists &&
        action.columns &&
        action.index !== null
      ) {
        const { index, method, unique, columns: keys, partial = false } = action;
        indexes.push({ ...of(action.table), index, method, unique, columns: keys, partial });
      }
  }
  const found = async (kind: AlreadyThere['kind'], sql: string, asked: readonly Asked[]) =>
    asked.length === 0
      ? []
      : (await session.query<Row>(sql, [JSON.stringify(asked)])).map((row) => described(kind, row));
  return [...(await found('column', COLUMNS, columns)), ...(await found('index', INDEXES, indexes))];
}

function described(
  kind: AlreadyThere['kind'],
  { statement, schema, table, name, is, asked }: Row,
): AlreadyThere {
  return { kind, statement, relation: displayName(schema, table), name, is, asked };
}

const SERIAL: Readonly<Record<string, string>> = {
  smallserial: 'int2',
  serial2: 'int2',
  serial: 'int4',
  serial4: 'int4',
  bigserial: 'int8',
  serial8: 'int8',
};

/** The type without its length, which may have been made wider since. */
function storedType(type: string): string {
  return SERIAL[type] ?? type.replace(/\([\d,]*\)/, '');
}
