import { messageOf, sqlstateOf } from '../../errors.ts';
import { ofExtension, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier, nameParts } from '../../postgres/sql/quote.ts';
import { type BodyQuery, expressionsOf } from './plpgsql-expressions.ts';

/**
 * Functions with a body that the server does not keep track of: text in SQL or PL/pgSQL. Their definition comes with the table of a
 * trigger that runs them, found by pg_depend: pg_trigger has no index by function.
 */
const FUNCTIONS = `
select p.oid::int8, n.nspname as schema, p.proname as name, pg_catalog.oidvectortypes(p.proargtypes) as arguments, l.lanname as language,
  pg_catalog.pg_get_functiondef(p.oid) as definition, pg_catalog.pg_get_function_result(p.oid) as result,
  coalesce((select pg_catalog.array_agg(p.proargnames[u.place]) from pg_catalog.unnest(p.proargmodes) with ordinality u (mode, place)
    where u.mode = 't'), '{}') as returned,
  array(select distinct t.tgrelid::pg_catalog.regclass::text from pg_catalog.pg_depend d join pg_catalog.pg_trigger t on t.oid = d.objid
    where d.classid = 'pg_catalog.pg_trigger'::pg_catalog.regclass and d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass and d.refobjid = p.oid
      and t.tgfoid = p.oid and not t.tgisinternal and t.tgenabled <> 'D') as tables
from pg_catalog.pg_proc p
join pg_catalog.pg_language l on l.oid = p.prolang
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where l.lanname in ('sql', 'plpgsql') and p.prokind in ('f', 'p') and ${USER_SCHEMA}
  and p.prosqlbody is null and ($1::pg_catalog.text is null or p.prosrc ~* $1)
  and not ${ofExtension('pg_proc', 'p.oid')}
order by 2, 3, 4 limit 500`;

export interface FunctionBody {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  readonly arguments: string;
  readonly language: 'sql' | 'plpgsql';
  readonly definition: string;
  /** `TABLE(id integer)`, `SETOF orders`, `trigger`; null for a procedure. */
  readonly result: string | null;
  /** Columns of RETURNS TABLE, which are variables in the body. */
  readonly returned: readonly string[];
  readonly tables: readonly string[];
}

/** @param pattern a regular expression for the bodies; null: all. */
export function readFunctionBodies(session: Session, pattern: string | null): Promise<FunctionBody[]> {
  return session.query<FunctionBody & object>(FUNCTIONS, [pattern]);
}

/** A refusal of a part of a body. */
export interface BodyFailure {
  readonly sqlstate: string;
  readonly message: string;
  /** The name at the position of the error, part by part. */
  readonly at: readonly string[];
  /** The query has a variable whose type only a run of the function shows. */
  readonly isOpen: boolean;
}

// Ours is pg_catalog; the application's is what the database and the role have.
const BEGIN = [
  'BEGIN READ WRITE',
  'SET LOCAL check_function_bodies = on',
  'RESET search_path',
  'SAVEPOINT probe',
];
/** Undoes the last analysis, whether it failed or not. */
export const UNDO = 'ROLLBACK TO SAVEPOINT probe';
const ROLLBACK = 'ROLLBACK';

/** Lends the session in a transaction with the search path of the application, which is rolled back. */
export async function analyzing<T>(session: Session, use: () => Promise<T>): Promise<T> {
  await session.queryAll(BEGIN);
  try {
    return await use();
  } finally {
    // A lost connection has rolled back by itself, and the failure that is under way says so.
    await session.query(ROLLBACK).catch(() => undefined);
  }
}

/** Has the function's name, since a body may qualify parameters by it. */
const probeName = ({ name }: FunctionBody) => `pg_temp.${identifier(name)}`;
const OWN_PATH = /^ SET search_path TO (.*)$/m;

/** The search_path that the function sets for itself. */
export function pathOf({ definition }: FunctionBody): string[] | null {
  const [, list] = OWN_PATH.exec(definition) ?? [];
  return list === undefined ? null : list.split(/, */).map((name) => name.replace(/^['"]|['"]$/g, ''));
}

/**
 * Analyzes the queries of a body, one after the other, as bodies of functions in SQL, which the server analyzes when they are created.
 * @param wanted tells which queries are looked at.
 */
export async function* failuresOf(
  session: Session,
  body: FunctionBody,
  wanted: (query: string) => boolean = () => true,
): AsyncGenerator<BodyFailure> {
  for (const { sql, isOpen } of await probesOf(body, wanted)) {
    const failure = await failureOf(session, sql, OWN_PATH.exec(body.definition)?.[1]);
    if (failure) yield { ...failure, isOpen };
  }
}

/** Functions whose creation fails if a part of the body does not work. */
async function probesOf(body: FunctionBody, wanted: (query: string) => boolean) {
  const { language, definition, returned, tables } = body;
  if (language === 'sql')
    return [
      {
        sql: `${/^CREATE OR REPLACE \w+ /.exec(definition)?.[0] ?? ''}${probeName(body)}${definition.slice(definition.indexOf('('))}`,
        isOpen: false,
      },
    ];
  const read = await expressionsOf(definition);
  if (read === null) return [];
  const given = read.variables.filter(({ name }) => !returned.includes(name));
  const open = read.variables.filter(
    ({ type, name }) => type === null && !(isRow(name) && tables.length > 0),
  );
  const names = open.map(({ name }) => name.replace(/\W/g, '\\$&'));
  const mentionsOpen = new RegExp(
    `(?<![\\w$])(?:${['tg_\\w+', '__\\w+', ...names].join('|')})(?![\\w$])`,
    'i',
  );
  return read.expressions
    .filter(({ sql }) => wanted(sql))
    .map((each) => {
      const result = resultOf(body, each);
      const variables = result === 'void' ? read.variables : given;
      return {
        sql: `CREATE OR REPLACE FUNCTION ${probeName(body)}(${parameters(variables, tables[0])}) RETURNS ${result} LANGUAGE sql AS $safemigrate_probe$${each.sql}\n$safemigrate_probe$`,
        isOpen: mentionsOpen.test(each.sql),
      };
    });
}

/** The rows of a trigger. */
const isRow = (name: string) => name === 'new' || name === 'old';

/** RETURN QUERY has to give the columns that the function returns. */
function resultOf({ result }: FunctionBody, { isReturned }: BodyQuery): string {
  return isReturned && result !== null && /^(?:TABLE\(|SETOF (?!record\b))/.test(result) ? result : 'void';
}

/** Rows of triggers have the type of their table; other records have no type before they are run, and are left out. */
function parameters(
  variables: readonly { readonly name: string; readonly type: string | null }[],
  table: string | undefined,
): string {
  return variables
    .flatMap(({ name, type }) => {
      const own = type ?? (isRow(name) && table !== undefined ? table : null);
      return own === null ? [] : [`${identifier(name)} ${own}`];
    })
    .join(', ');
}

/** @param path the search_path that the function sets for itself, as SET writes it. */
async function failureOf(
  session: Session,
  sql: string,
  path: string | undefined,
): Promise<Omit<BodyFailure, 'isOpen'> | null> {
  // One round trip, independent of all others: several may be under way.
  const sent = [UNDO, ...(path === undefined ? [] : [`SET LOCAL search_path TO ${path}`]), sql].join(';\n');
  try {
    await session.queryAll([sent]);
    return null;
  } catch (error) {
    const sqlstate = sqlstateOf(error);
    if (sqlstate === undefined) throw error;
    const { position, internalPosition, internalQuery } = error as Record<string, string | undefined>;
    const from = Number(internalPosition ?? position ?? 0);
    return {
      sqlstate,
      message: messageOf(error),
      at: from === 0 ? [] : nameAt(internalQuery ?? sent, from - 1),
    };
  }
}

/** @param from in characters, as the server counts them. */
export function nameAt(text: string, from: number): string[] {
  const rest = [...text].slice(from, from + 300).join('');
  const part = '(?:"(?:[^"]|"")*"|[\\w$\\u0080-\\uffff]+)';
  return nameParts(new RegExp(`^${part}(?:\\.${part})*`).exec(rest)?.[0] ?? '');
}
