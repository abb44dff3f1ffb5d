import type { ActingObject } from '../model/hazard-facts.ts';
import { FIRST_USER_OID } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { fieldsIf } from '../postgres/sql/classify-statement.ts';
import { parseText } from '../postgres/sql/parse.ts';
import { displayName } from '../postgres/sql/quote.ts';
import { callOfFunction, type Known } from './find-server-call.ts';
import {
  ANY_ARGUMENTS,
  type KnownFunction,
  SERVER_FUNCTIONS,
  type ServerCall,
  ServerCalls,
} from './server-calls.ts';
import type { Names } from './statement-scope.ts';

interface ListedRow {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  readonly extension: string | null;
  readonly least: number;
  readonly most: number;
  readonly variadic: boolean;
}

/** Functions that have such a name: those that are meant, by their schema or extension, and the user's own. */
const LISTED = `
SELECT p.oid::pg_catalog.int8 AS oid, n.nspname AS schema, p.proname AS name, e.extname AS extension,
  p.pronargs - p.pronargdefaults AS least, p.pronargs AS most, p.provariadic <> 0 AS variadic
FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e'
LEFT JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
WHERE p.proname = ANY ($1)`;

interface RunningRow {
  readonly kind: 'function' | 'read' | 'write' | 'event trigger';
  readonly oid: string;
  readonly schema: string | null;
  readonly name: string;
  /** CREATE FUNCTION …, whose body only mentions such a name. */
  readonly definition: string | null;
  /** OID of the function that it runs, or of the view that it reads. */
  readonly runs: string | null;
}

/**
 * The user's objects that may run such a function. $1: a pattern of names, for bodies that are texts. $2: a pattern of
 * OIDs in parsed expressions. $3: the functions by their OIDs.
 */
const RUNNING = `
WITH found AS (
  SELECT 'function' AS kind, p.oid, p.pronamespace AS namespace, p.proname AS name,
    pg_catalog.pg_get_functiondef(p.oid) AS definition, NULL AS runs
  FROM pg_catalog.pg_proc p
  JOIN pg_catalog.pg_language l ON l.oid = p.prolang
  WHERE p.oid >= ${FIRST_USER_OID} AND p.prokind IN ('f', 'p') AND l.lanname NOT IN ('c', 'internal')
    AND (p.prosrc ~* $1 OR p.prosqlbody::pg_catalog.text ~ $2)
  UNION ALL
  SELECT 'function', p.oid, p.pronamespace, p.proname, NULL, a.aggtransfn::pg_catalog.oid::pg_catalog.text
  FROM pg_catalog.pg_aggregate a JOIN pg_catalog.pg_proc p ON p.oid = a.aggfnoid
  WHERE a.aggtransfn = ANY ($3)
  UNION ALL
  SELECT CASE WHEN r.ev_type = '1' THEN 'read' ELSE 'write' END, c.oid, c.relnamespace, c.relname, NULL,
    pg_catalog.substring(r.ev_action::pg_catalog.text, $2)
  FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class
  WHERE r.ev_class >= ${FIRST_USER_OID} AND r.ev_action::pg_catalog.text ~ $2
  UNION ALL
  SELECT 'read', c.oid, c.relnamespace, c.relname, NULL,
    pg_catalog.substring(pg_catalog.concat(p.polqual, p.polwithcheck), $2)
  FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_class c ON c.oid = p.polrelid
  WHERE p.polqual::pg_catalog.text ~ $2 OR p.polwithcheck::pg_catalog.text ~ $2
  UNION ALL
  SELECT 'write', c.oid, c.relnamespace, c.relname, NULL, e.runs
  FROM (
    SELECT t.tgrelid AS relation, t.tgfoid::pg_catalog.text AS runs FROM pg_catalog.pg_trigger t
    WHERE NOT t.tgisinternal AND t.tgfoid = ANY ($3)
    UNION ALL
    SELECT d.adrelid, pg_catalog.substring(d.adbin::pg_catalog.text, $2) FROM pg_catalog.pg_attrdef d
    WHERE d.adrelid >= ${FIRST_USER_OID} AND d.adbin::pg_catalog.text ~ $2
    UNION ALL
    SELECT k.conrelid, pg_catalog.substring(k.conbin::pg_catalog.text, $2) FROM pg_catalog.pg_constraint k
    WHERE k.conrelid >= ${FIRST_USER_OID} AND k.conbin IS NOT NULL AND k.conbin::pg_catalog.text ~ $2
    UNION ALL
    SELECT i.indrelid, pg_catalog.substring(pg_catalog.concat(i.indexprs, i.indpred), $2)
    FROM pg_catalog.pg_index i WHERE i.indrelid >= ${FIRST_USER_OID} AND (i.indexprs::pg_catalog.text ~ $2 OR i.indpred::pg_catalog.text ~ $2)
  ) e JOIN pg_catalog.pg_class c ON c.oid = e.relation
  WHERE c.oid >= ${FIRST_USER_OID}
  UNION ALL
  SELECT 'event trigger', t.oid, NULL, t.evtname, NULL, t.evtfoid::pg_catalog.text
  FROM pg_catalog.pg_event_trigger t WHERE t.evtenabled <> 'D' AND t.evtfoid = ANY ($3)
)
SELECT f.kind, f.oid::pg_catalog.int8 AS oid, n.nspname AS schema, f.name, f.definition, f.runs
FROM found f LEFT JOIN pg_catalog.pg_namespace n ON n.oid = f.namespace`;

/** Words of statements that act beyond their database, for bodies that run them by themselves. */
const STATEMENTS = ['role', 'program', 'tablespace', 'owned', 'subscription'];

/**
 * Reads which functions of the session's database act on the server, and which objects of the user's run one of them, however
 * many functions and views are in between.
 * @param calls those that are known already @param learned functions that the command has made or replaced: their OIDs stay the same
 */
export async function readServerCalls(
  session: Session,
  names: Names,
  calls = new ServerCalls(),
  learned: readonly KnownFunction[] = [],
) {
  const known: Known = { calls, names };
  /** Calls of functions and views, by their OIDs. */
  const acting = new Map<string, ServerCall>();
  for (const row of await session.query<ListedRow>(LISTED, [[...SERVER_FUNCTIONS.keys()]])) {
    const call = addListed(row, calls);
    if (call) acting.set(row.oid, call);
  }
  const named = learned.map(({ name }) => name);
  for (const { oid, schema, name } of named.length === 0
    ? []
    : await session.query<ListedRow>(LISTED, [named]))
    for (const each of learned)
      if (each.name === name && (each.schema ?? schema) === schema && each.call) acting.set(oid, each.call);
  const objects: (Pick<RunningRow, 'kind' | 'schema' | 'name'> & { readonly call: ServerCall })[] = [];
  const seen = new Set<string>();
  let words = [...SERVER_FUNCTIONS.keys(), ...STATEMENTS, ...named];
  for (let found = true; found; ) {
    const oids = [...acting.keys()];
    const rows = await session.query<RunningRow>(RUNNING, [
      `\\m(?:${words.map((word) => word.replace(/\W/g, '.')).join('|')})\\M`,
      `:(?:funcid|opfuncid|aggfnoid|winfnoid|relid) (${oids.join('|') || '-'}) `,
      oids,
    ]);
    found = false;
    for (const row of rows.filter((each) => !seen.has(keyOf(each)))) {
      const call = await callOf(row, acting, known);
      if (!call) continue;
      found = true;
      seen.add(keyOf(row));
      words = [...words, row.name];
      if (row.kind === 'function' || row.kind === 'read') acting.set(row.oid, call);
      addRunning(row, call, calls);
      objects.push({ kind: row.kind, schema: row.schema, name: row.name, call });
    }
  }
  return { calls, objects };
}

export type RunningObjects = Awaited<ReturnType<typeof readServerCalls>>;

const keyOf = ({ kind, oid }: RunningRow) => `${kind} ${oid}`;

function addListed(row: ListedRow, calls: ServerCalls): ServerCall | undefined {
  const { schema, name, extension } = row;
  const listed = SERVER_FUNCTIONS.get(name);
  const isMeant = extension === listed?.extension && (extension !== null || schema === 'pg_catalog');
  const call = listed && isMeant ? { what: `${name}()`, why: listed.why, leaves: listed.leaves } : undefined;
  const maxArgs = row.variadic ? ANY_ARGUMENTS.maxArgs : row.most;
  calls.addFunction({ schema, name, oid: Number(row.oid), minArgs: row.least, maxArgs, call: call ?? null });
  return call;
}

async function callOf(
  { definition, runs }: RunningRow,
  acting: ReadonlyMap<string, ServerCall>,
  known: Known,
): Promise<ServerCall | undefined> {
  if (definition === null) return acting.get(runs ?? '');
  const [statement] = (await parseText(Buffer.from(definition))) ?? [];
  const created = statement && fieldsIf(statement.node, 'CreateFunctionStmt');
  return await callOfFunction(definition, created?.options, known);
}

function addRunning({ kind, oid, schema, name }: RunningRow, call: ServerCall, calls: ServerCalls): void {
  if (kind === 'function') calls.addFunction({ schema, name, oid: Number(oid), ...ANY_ARGUMENTS, call });
  else if (kind !== 'event trigger') calls.setRelation({ schema, name, on: kind, call });
}

/** Views over a catalogue that all databases share, or over another such view; `name` is the catalogue's. */
const SHARED_VIEWS = `
WITH RECURSIVE over(oid, name) AS (
  SELECT c.oid, c.relname FROM pg_catalog.pg_class c WHERE c.relisshared AND c.relkind = 'r'
  UNION
  SELECT r.ev_class, over.name FROM over JOIN pg_catalog.pg_rewrite r
    ON r.ev_type = '1' AND r.ev_class >= ${FIRST_USER_OID} AND pg_catalog.strpos(r.ev_action::pg_catalog.text, ':relid ' || over.oid || ' ') > 0
)
SELECT DISTINCT n.nspname AS schema, c.relname AS view, over.name
FROM over JOIN pg_catalog.pg_class c USING (oid) JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'v'`;

/** Adds the views of the session's database through which a catalogue could be written that all databases share. */
export async function addSharedViews(session: Session, calls: ServerCalls): Promise<void> {
  for (const { schema, view, name } of await session.query<{ schema: string; view: string; name: string }>(
    SHARED_VIEWS,
  )) {
    const call = calls.relation({ schema: 'pg_catalog', name }, 'write');
    if (call) calls.setRelation({ schema, name: view, on: 'write', call });
  }
}

const KINDS = { function: 'function', read: 'relation', write: 'table', 'event trigger': 'event trigger' };

/** Lists what runs such a function although the gate did not know it: nothing stopped what used it. */
export function unknownAmong(known: ServerCalls, { objects }: RunningObjects): ActingObject[] {
  return objects
    .filter(({ kind, schema, name }) => {
      if (kind === 'event trigger') return true;
      const call =
        kind === 'function'
          ? known.called({ schema, name }, undefined)
          : known.relation({ schema, name }, kind);
      return call === undefined;
    })
    .map(({ kind, schema, name, call: { what, why } }) => ({
      object: `${KINDS[kind]} ${schema === null ? displayName(name) : displayName(schema, name)}`,
      runs: what,
      why,
    }));
}

/** Built-in functions that PostgreSQL marks as volatile, and that change nothing for others. */
const HARMLESS = [
  ...[
    'clock_timestamp',
    'gen_random_uuid',
    'random',
    'set_config',
    'timeofday',
    'pg_sleep',
    'pg_is_in_recovery',
  ],
  ...[
    'pg_database_size',
    'pg_tablespace_size',
    'pg_relation_size',
    'pg_total_relation_size',
    'pg_table_size',
  ],
  ...[
    'pg_indexes_size',
    'pg_current_wal_lsn',
    'pg_last_wal_replay_lsn',
    'pg_blocking_pids',
    'pg_stat_clear_snapshot',
  ],
];

const MAY_WRITE = `
SELECT called.name
  FROM pg_catalog.unnest($1::text[]) called(name)
 WHERE called.name <> ALL ($2::text[])
   AND coalesce((SELECT pg_catalog.bool_or(p.provolatile = 'v') FROM pg_catalog.pg_proc p
                  WHERE p.proname = called.name AND p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace), true)
 LIMIT 1`;

/**
 * Returns the first of these functions that may write: it is volatile, or not PostgreSQL's own.
 * @param names without schemas. @param session in any database of the server.
 */
export async function writingFunction(
  session: Session,
  names: readonly string[],
): Promise<string | undefined> {
  if (names.length === 0) return undefined;
  const [found] = await session.query<{ name: string }>(MAY_WRITE, [names, HARMLESS]);
  return found?.name;
}
