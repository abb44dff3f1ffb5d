import { messageOf, sqlstateOf } from '../../errors.ts';
import type { BrokenFunction } from '../../model/effect-facts.ts';
import type { SchemaSection } from '../../model/report.ts';
import { ofExtension, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, identifier, nameParts } from '../../postgres/sql/quote.ts';
import { expressionsOf } from './plpgsql-expressions.ts';

/**
 * Functions with a body that the server does not keep track of: text in SQL or PL/pgSQL. Their definition comes with the table of a
 * trigger that runs them.
 */
const NAMING = `
select p.oid::int8, n.nspname as schema, p.proname as name, pg_catalog.oidvectortypes(p.proargtypes) as arguments, l.lanname as language,
  pg_catalog.pg_get_functiondef(p.oid) as definition,
  array(select distinct t.tgrelid::pg_catalog.regclass::text from pg_catalog.pg_trigger t
    where t.tgfoid = p.oid and not t.tgisinternal and t.tgenabled <> 'D') as tables
from pg_catalog.pg_proc p
join pg_catalog.pg_language l on l.oid = p.prolang
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where l.lanname in ('sql', 'plpgsql') and p.prokind in ('f', 'p') and ${USER_SCHEMA}
  and pg_catalog.to_jsonb(p) ->> 'prosqlbody' is null and p.prosrc ~* $1
  and not ${ofExtension('pg_proc', 'p.oid')}
order by 2, 3, 4 limit 500`;

interface Row {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  readonly arguments: string;
  readonly language: 'sql' | 'plpgsql';
  readonly definition: string;
  readonly tables: readonly string[];
}

// Ours is pg_catalog; the application's is what the database and the role have.
const BEGIN = ['BEGIN READ WRITE', 'SET LOCAL check_function_bodies = on', 'RESET search_path'];
const PATH = 'SELECT pg_catalog.current_schemas(false)::pg_catalog.text[] AS path';
const ROLLBACK = 'ROLLBACK';

/**
 * Finds functions that name what is gone. Each query of a body that contains one of the names becomes the body of a function in SQL, which
 * the server analyzes when it is created; then all is rolled back. If the database has plpgsql_check, it reads what this does not.
 * Texts made at run time (EXECUTE) are not read.
 */
export async function brokenFunctions(session: Session, gone: GoneNames): Promise<BrokenFunction[]> {
  const names = [...gone.relations, ...gone.columns, ...gone.functions, ...gone.types];
  const words = names.map(({ name }) => name.replace(/[^\w\u0080-\uffff]/g, '\\$&')).join('|');
  const candidates = await session.query<Row>(NAMING, [`(?:^|[^\\w])(?:${words})(?:[^\\w]|$)`]);
  if (candidates.length === 0) return [];
  const mentions = new RegExp(`(?<![\\w$])(?:${words})(?![\\w$])`, 'i');
  const found: BrokenFunction[] = [];
  const check = await findPlpgsqlCheck(session);
  for (const sql of BEGIN) await session.query(sql);
  try {
    const [schemas] = await session.query<{ path: string[] }>(PATH);
    for (const row of candidates) {
      const broken = await firstBroken(session, row, gone, { path: schemas?.path ?? [], mentions, check });
      if (broken !== null) found.push(broken);
    }
  } finally {
    // A lost connection has rolled back by itself, and the failure that is under way says so.
    await session.query(ROLLBACK).catch(() => undefined);
  }
  return found;
}

async function firstBroken(
  session: Session,
  row: Row,
  gone: GoneNames,
  {
    path,
    mentions,
    check,
  }: { readonly path: readonly string[]; readonly mentions: RegExp; readonly check: CheckBody | null },
): Promise<BrokenFunction | null> {
  const brokenBy = (failure: Failure): BrokenFunction | null => {
    const lost = goneIn(failure, gone, pathOf(row) ?? path);
    if (!lost) return null;
    const name = `${displayName(row.schema, row.name)}(${row.arguments})`;
    const { name: names, within } = lost;
    return { function: name, names, within, error: failure.message, triggersOn: row.tables };
  };
  for (const sql of await probesOf(row, mentions)) {
    const failure = await failureOf(session, sql, OWN_PATH.exec(row.definition)?.[1]);
    const broken = failure && brokenBy(failure);
    if (broken) return broken;
  }
  if (check === null || row.language !== 'plpgsql') return null;
  return (await failuresOf(session, row, check)).map(brokenBy).find((broken) => broken !== null) ?? null;
}

/** Returns what plpgsql_check finds; nothing if it does not take the function. */
async function failuresOf(session: Session, { oid, tables }: Row, check: CheckBody): Promise<Failure[]> {
  await session.query('SAVEPOINT probe');
  try {
    const errors = await check(Number(oid), tables[0]);
    return errors.map(({ sqlstate, message, query, position }) => ({
      sqlstate,
      message,
      // For a field of a record it says the name only in its message.
      at:
        position === 0
          ? nameParts(/"[^"]*"(?=[^"]*$)/.exec(message)?.[0] ?? '')
          : nameAt(query, position - 1),
    }));
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    return [];
  } finally {
    await session.query('ROLLBACK TO SAVEPOINT probe');
  }
}

const PROBE = 'pg_temp.safemigrate_probe';

/** The search_path that the function sets for itself. */
function pathOf({ definition }: Row): string[] | null {
  const [, list] = OWN_PATH.exec(definition) ?? [];
  return list === undefined ? null : list.split(/, */).map((name) => name.replace(/^['"]|['"]$/g, ''));
}

const OWN_PATH = /^ SET search_path TO (.*)$/m;

/** Functions whose creation fails if a part of the body does not work. */
async function probesOf({ language, definition, tables }: Row, mentions: RegExp): Promise<string[]> {
  if (language === 'sql')
    return [
      `${/^CREATE OR REPLACE \w+ /.exec(definition)?.[0] ?? ''}${PROBE}${definition.slice(definition.indexOf('('))}`,
    ];
  const body = await expressionsOf(definition);
  if (body === null) return [];
  const head = `CREATE OR REPLACE FUNCTION ${PROBE}(${parameters(body.variables, tables[0])}) RETURNS void LANGUAGE sql AS `;
  return body.expressions
    .filter((sql) => mentions.test(sql))
    .map((sql) => `${head}$safemigrate_probe$${sql}\n$safemigrate_probe$`);
}

/** Rows of triggers have the type of their table; other records have no type before they are run, and are left out. */
function parameters(
  variables: readonly { readonly name: string; readonly type: string | null }[],
  table: string | undefined,
): string {
  return variables
    .flatMap(({ name, type }) => {
      const own = type ?? ((name === 'new' || name === 'old') && table !== undefined ? table : null);
      return own === null ? [] : [`${identifier(name)} ${own}`];
    })
    .join(', ');
}

interface Failure {
  readonly sqlstate: string;
  readonly message: string;
  /** The name at the position of the error, part by part. */
  readonly at: readonly string[];
}

/** @param path the search_path that the function sets for itself, as SET writes it. */
async function failureOf(session: Session, sql: string, path: string | undefined): Promise<Failure | null> {
  await session.query('SAVEPOINT probe');
  if (path !== undefined) await session.query(`SET LOCAL search_path TO ${path}`);
  try {
    await session.query(sql);
    return null;
  } catch (error) {
    const sqlstate = sqlstateOf(error);
    if (sqlstate === undefined) throw error;
    const { position, internalPosition, internalQuery } = error as Record<string, string | undefined>;
    const text = internalQuery ?? sql;
    const from = Number(internalPosition ?? position ?? 0);
    return { sqlstate, message: messageOf(error), at: from === 0 ? [] : nameAt(text, from - 1) };
  } finally {
    await session.query('ROLLBACK TO SAVEPOINT probe');
  }
}

/** @param from in characters, as the server counts them. */
function nameAt(text: string, from: number): string[] {
  const rest = [...text].slice(from, from + 300).join('');
  const part = '(?:"(?:[^"]|"")*"|[\\w$\\u0080-\\uffff]+)';
  return nameParts(new RegExp(`^${part}(?:\\.${part})*`).exec(rest)?.[0] ?? '');
}

/**
 * Finds the gone name that the error is about. The position shows the use, the SQLSTATE what kind of name was looked for there.
 * @param path the schemas in which names without one were looked for.
 */
function goneIn({ sqlstate, at }: Failure, gone: GoneNames, path: readonly string[]): GoneName | undefined {
  const [name = '', within] = at.toReversed();
  const among = (names: readonly GoneName[]) =>
    names.find(
      (each) => each.name === name && (within === undefined ? path : [within]).includes(each.within),
    );
  const columns = gone.columns.filter((each) => each.name === name);
  const column = columns.find((each) => each.within === within) ?? columns[0];
  switch (sqlstate) {
    case '42P01':
      return at.length === 2 && (within === 'new' || within === 'old') ? column : among(gone.relations);
    case '42703':
      return column;
    case '42883':
      return among(gone.functions);
    case '42704':
      return among(gone.types);
    default:
      return undefined;
  }
}

/** One error of a function's body. */
export interface BodyError {
  readonly sqlstate: string;
  readonly message: string;
  /** The query of the body, and where in it the error is: characters from 1; 0 if the server does not say. */
  readonly query: string;
  readonly position: number;
}

/** Returns the errors of one function in PL/pgSQL, given its OID and the table of a trigger that runs it. Runs nothing of it. */
export type CheckBody = (oid: number, table: string | undefined) => Promise<BodyError[]>;

const INSTALLED = `
select n.nspname as schema from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace
where e.extname = 'plpgsql_check'`;

/** The extension plpgsql_check, which also knows the fields of records; null if the database does not have it. */
export async function findPlpgsqlCheck(session: Session): Promise<CheckBody | null> {
  const [row] = await session.query<{ schema: string }>(INSTALLED);
  if (!row) return null;
  const sql = `SELECT sqlstate, message, coalesce(query, '') AS query, coalesce("position", 0) AS position
    FROM ${identifier(row.schema)}.plpgsql_check_function_tb(
      funcoid => $1::pg_catalog.oid::pg_catalog.regprocedure, relid => coalesce($2::pg_catalog.text::pg_catalog.regclass, 0::pg_catalog.oid::pg_catalog.regclass), fatal_errors => false)
    WHERE level = 'error'`;
  return (oid, table) => session.query<BodyError & object>(sql, [oid, table ?? null]);
}

/** Names that meant something before the command and no longer do. */
export interface GoneNames {
  readonly relations: readonly GoneName[];
  readonly columns: readonly GoneName[];
  readonly functions: readonly GoneName[];
  readonly types: readonly GoneName[];
}

/** A name as the catalogues hold it, without quotes. */
export interface GoneName {
  /** The schema; of a column, its table. */
  readonly within: string;
  readonly name: string;
}

const RELATIONS = ['table', 'view', 'materialized view', 'foreign table'];
const FUNCTIONS = ['function', 'procedure', 'aggregate'];
const TYPES = ['type', 'domain', ...RELATIONS];

/** Lists the names of dropped and renamed objects. An object that was made again under its name is not gone. */
export function goneNames({ changes, renames }: SchemaSection): GoneNames {
  const made = new Set(changes.filter(({ verb }) => verb === 'create').map(({ object }) => object));
  const gone = [
    ...changes.filter(({ verb, object }) => verb === 'drop' && !made.has(object)),
    ...renames.map(({ kind, from }) => ({ kind, object: from })),
  ];
  const named = (kinds: readonly string[]) =>
    gone.filter(({ kind }) => kinds.includes(kind)).map(({ object }) => goneName(object));
  return {
    relations: named(RELATIONS),
    columns: named(['column']),
    functions: named(FUNCTIONS),
    types: named(TYPES),
  };
}

export function hasGone(names: GoneNames): boolean {
  return Object.values(names).some((list: readonly GoneName[]) => list.length > 0);
}

/** Returns `public` and `f` for `public.f(integer)`. */
function goneName(object: string): GoneName {
  const parts = nameParts(object.replace(/\((?:[^"]|"(?:[^"]|"")*")*\)$/s, ''));
  return { within: parts.at(-2) ?? '', name: parts.at(-1) ?? '' };
}
