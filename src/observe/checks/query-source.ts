import { readFileSync } from 'node:fs';
import { messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { beginsAsPreparable } from '../../postgres/sql/classify-statement.ts';
import { parseText, textOf } from '../../postgres/sql/parse.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import { ApplicationTexts, isOurs } from './application-texts.ts';

/** One query that the running application sends. */
export interface ApplicationQuery {
  readonly sql: string;
  /** Over all roles; null if they were not counted. */
  readonly calls: number | null;
  readonly callsPerSecond: number | null;
}

export interface ApplicationQueries {
  /** `pg_stat_statements`, or the name of a file. */
  readonly source: string;
  /** ISO 8601; null if each was counted since a moment of its own, or none was counted. */
  readonly countedSince: string | null;
  readonly queries: readonly ApplicationQuery[];
  /** Statements that no one can prepare. */
  readonly utility: number;
  /** Statements whose text the role may not see. */
  readonly hidden: number;
  /** Statements of safemigrate and of tools, which use nothing of the application's; missing: not looked for. */
  readonly others?: number;
}

export const STAT_STATEMENTS = 'pg_stat_statements';
const AT_MOST = 1000;
/** Number that pg_stat_statements keeps by default: utility statements among them are left out afterwards. */
const READ_AT_MOST = 5000;

/** The extension may be older than the server: each column is looked for. */
const WHERE = `
select n.nspname as schema,
  pg_catalog.has_schema_privilege(n.oid, 'USAGE') and pg_catalog.has_table_privilege(c.oid, 'SELECT') as readable,
  pg_catalog.current_setting('pg_stat_statements.max', true) is not null as loaded,
  exists (select from pg_catalog.pg_class i where i.relnamespace = n.oid and i.relname = 'pg_stat_statements_info') as info,
  array(select a.attname::text from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum > 0) as columns
from pg_catalog.pg_extension e
join pg_catalog.pg_namespace n on n.oid = e.extnamespace
join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = 'pg_stat_statements'
where e.extname = 'pg_stat_statements'`;

interface Place {
  schema: string;
  readable: boolean;
  loaded: boolean;
  info: boolean;
  columns: string[];
}

/** Texts that are hidden from the role have a hidden identifier, too. */
const statementsSql = ({ schema, info, columns }: Place): string => {
  const from = identifier(schema);
  const reset = info ? `(select stats_reset from ${from}.pg_stat_statements_info)` : 'null::timestamptz';
  const since = columns.includes('stats_since') ? 's.stats_since' : reset;
  return `
select s.query, pg_catalog.sum(s.calls)::int8 as calls, s.queryid is null as hidden,
  pg_catalog.count(*)::int4 as entries, pg_catalog.to_json(pg_catalog.min(${since})) #>> '{}' as since,
  pg_catalog.sum(s.calls / greatest(extract(epoch from pg_catalog.now() - ${since}), 1))::float8 as rate
from ${from}.pg_stat_statements s
where s.dbid = $1 and s.query is not null${columns.includes('toplevel') ? ' and s.toplevel' : ''}
group by s.query, s.queryid is null
order by 2 desc limit ${READ_AT_MOST}`;
};

const NOT_LOADED = '55000';

/**
 * The statements that the server counted most often in one database, in text that has its literals replaced.
 * @param options.ofCatalogs those that use catalogs alone as well: tools send them, and an upgrade may break them.
 * @returns the reason, in words, where the session cannot read them.
 */
export async function readStatStatements(
  session: Session,
  databaseOid: number,
  { ofCatalogs = false }: { readonly ofCatalogs?: boolean } = {},
): Promise<ApplicationQueries | { readonly unreadable: string }> {
  const [place] = await session.query<Place>(WHERE);
  if (!place) return { unreadable: 'the extension pg_stat_statements is not installed in the target' };
  if (!place.loaded) return { unreadable: UNLOADED };
  if (!place.readable) return { unreadable: 'the role may not read pg_stat_statements' };
  const rows = await session
    .query<{
      query: string;
      calls: string;
      hidden: boolean;
      entries: number;
      since: string | null;
      rate: number | null;
    }>(statementsSql(place), [databaseOid])
    .catch(refusalOf);
  if ('unreadable' in rows) return rows;
  const seen = rows.filter(({ hidden }) => !hidden);
  const preparable = seen.filter(({ query }) => beginsAsPreparable(query));
  const texts = await ApplicationTexts.read(session);
  const sent: typeof preparable = [];
  let others = 0;
  for (const row of preparable) {
    if (sent.length === AT_MOST) break;
    if (!isOurs(row.query) && (ofCatalogs || (await texts.has(row.query)))) sent.push(row);
    else others += 1;
  }
  const same = place.columns.includes('stats_since') ? null : (rows[0]?.since ?? null);
  return {
    source: STAT_STATEMENTS,
    countedSince: same,
    queries: sent.map(({ query, calls, rate }) => ({
      sql: query,
      calls: Number(calls),
      callsPerSecond: rate,
    })),
    utility: seen.length - preparable.length,
    hidden: rows.reduce((sum, { hidden, entries }) => sum + (hidden ? entries : 0), 0),
    others,
  };
}

function refusalOf(error: unknown): { unreadable: string } {
  const sqlstate = sqlstateOf(error);
  if (sqlstate === undefined) throw error;
  if (sqlstate === NOT_LOADED) return { unreadable: UNLOADED };
  return { unreadable: `pg_stat_statements cannot be read: ${messageOf(error)}` };
}

const UNLOADED = 'pg_stat_statements is not among the shared_preload_libraries of the server';

/**
 * The queries of a file, separated by semicolons.
 * @param source how the user names the file.
 * @throws SafemigrateError `CONFIGURATION`
 */
export async function readQueryFile(file: string, source: string): Promise<ApplicationQueries> {
  const text = readText(file, '--queries');
  const statements = await parseText(text);
  if (!statements) {
    throw new SafemigrateError('CONFIGURATION', `--queries: ${file} cannot be read as SQL.`, {
      hint: 'Write queries with $1, $2 in the place of values, each ended by a semicolon.',
    });
  }
  const texts = statements.map(({ from, to }) => textOf(text, from, to));
  const preparable = texts.filter(beginsAsPreparable);
  return {
    source,
    countedSince: null,
    queries: preparable.map((sql) => ({ sql, calls: null, callsPerSecond: null })),
    utility: texts.length - preparable.length,
    hidden: 0,
  };
}

/** @throws SafemigrateError `CONFIGURATION` that names the flag. */
export function readText(file: string, flag: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    throw new SafemigrateError('CONFIGURATION', `${flag}: ${file} cannot be read: ${messageOf(cause)}.`, {
      hint: 'Nothing was touched.',
      cause,
    });
  }
}
