import { sqlstateOf } from '../../errors.ts';
import type { BrokenFunction } from '../../model/effect-facts.ts';
import type { SchemaSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, identifier, nameParts } from '../../postgres/sql/quote.ts';
import {
  analyzing,
  type BodyFailure,
  type FunctionBody,
  failuresOf,
  nameAt,
  pathOf,
  readFunctionBodies,
  UNDO,
} from './function-bodies.ts';

const PATH = 'SELECT pg_catalog.current_schemas(false)::pg_catalog.text[] AS path';

/**
 * Finds functions that name what is gone. Each query of a body that contains one of the names becomes the body of a function in SQL, which
 * the server analyzes when it is created; then all is rolled back. If the database has plpgsql_check, it reads what this does not.
 * Texts made at run time (EXECUTE) are not read.
 */
export async function brokenFunctions(session: Session, gone: GoneNames): Promise<BrokenFunction[]> {
  const names = [...gone.relations, ...gone.columns, ...gone.functions, ...gone.types];
  const words = names.map(({ name }) => name.replace(/[^\w\u0080-\uffff]/g, '\\$&')).join('|');
  const candidates = await readFunctionBodies(session, `(?:^|[^\\w])(?:${words})(?:[^\\w]|$)`);
  if (candidates.length === 0) return [];
  const mentions = new RegExp(`(?<![\\w$])(?:${words})(?![\\w$])`, 'i');
  const check = await findPlpgsqlCheck(session);
  return analyzing(session, async () => {
    const found: BrokenFunction[] = [];
    const [schemas] = await session.query<{ path: string[] }>(PATH);
    for (const body of candidates) {
      const broken = await firstBroken(session, body, gone, { path: schemas?.path ?? [], mentions, check });
      if (broken !== null) found.push(broken);
    }
    return found;
  });
}

async function firstBroken(
  session: Session,
  body: FunctionBody,
  gone: GoneNames,
  {
    path,
    mentions,
    check,
  }: { readonly path: readonly string[]; readonly mentions: RegExp; readonly check: CheckBody | null },
): Promise<BrokenFunction | null> {
  const brokenBy = (failure: BodyFailure): BrokenFunction | null => {
    const names = goneIn(failure, gone, pathOf(body) ?? path);
    if (!names) return null;
    return {
      function: signatureOf(body),
      names,
      mentions: [],
      error: failure.message,
      triggersOn: body.tables,
    };
  };
  for await (const failure of failuresOf(session, body, (query) => mentions.test(query))) {
    const broken = brokenBy(failure);
    if (broken) return broken;
  }
  if (check === null || body.language !== 'plpgsql') return null;
  return (await checkedBy(check, session, body)).map(brokenBy).find((broken) => broken !== null) ?? null;
}

/** `public.f(integer)` */
export function signatureOf({ schema, name, arguments: types }: FunctionBody): string {
  return `${displayName(schema, name)}(${types})`;
}

/** Returns what plpgsql_check finds; nothing if it does not take the function. */
async function checkedBy(
  check: CheckBody,
  session: Session,
  { oid, tables }: FunctionBody,
): Promise<BodyFailure[]> {
  await session.query(UNDO);
  try {
    const errors = await check(Number(oid), tables[0]);
    return errors.map(({ sqlstate, message, query, position }) => ({
      sqlstate,
      message,
      isOpen: false,
      // For a field of a record it says the name only in its message.
      at:
        position === 0
          ? nameParts(/"[^"]*"(?=[^"]*$)/.exec(message)?.[0] ?? '')
          : nameAt(query, position - 1),
    }));
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    return [];
  }
}

/**
 * Finds the gone name that the error is about. The position shows the use, the SQLSTATE what kind of name was looked for there.
 * @param path the schemas in which names without one were looked for.
 */
function goneIn(
  { sqlstate, at }: BodyFailure,
  gone: GoneNames,
  path: readonly string[],
): GoneName | undefined {
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
