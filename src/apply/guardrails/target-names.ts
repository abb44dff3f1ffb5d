import { FIRST_USER_OID } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';

/** Names in a database, which decide whether a statement without a rehearsal may run. */
export interface TargetNames {
  /** Functions, operators and types that users or extensions made. */
  readonly code: ReadonlySet<string>;
  /** Tables, views, indexes and sequences of users. */
  readonly relations: ReadonlySet<string>;
  /** Functions of PostgreSQL that are declared not to change anything (provolatile), and some harmless volatile ones. */
  readonly reading: ReadonlySet<string>;
  /** Functions that execute texts, and functions that call them. */
  readonly executing: ReadonlySet<string>;
}

/** Volatile functions without a lasting effect: advisory locks, clocks, random values, states of the server. */
const VOLATILE_AND_READING = [
  ...['pg_(?:try_)?advisory_\\w+', 'clock_timestamp', 'timeofday', 'random', 'gen_random_uuid', 'uuidv\\d'],
  ...[
    'pg_sleep\\w*',
    'currval',
    'lastval',
    'pg_is_in_\\w+',
    'pg_is_wal_replay_paused',
    'pg_current_wal_\\w+',
  ],
  ...['pg_last_\\w+', 'pg_\\w+_size', 'pg_blocking_pids', 'pg_lock_status', 'pg_export_snapshot'],
].join('|');
/** Functions that are declared stable and run the queries of views, or code of types. */
const RUNNING = '\\w+_to_xml\\w*|pg_input_\\w+';

const NAMES = `
SELECT ARRAY(SELECT DISTINCT name::pg_catalog.text FROM (
         SELECT proname AS name FROM pg_catalog.pg_proc WHERE oid >= ${FIRST_USER_OID}
         UNION ALL SELECT oprname FROM pg_catalog.pg_operator WHERE oid >= ${FIRST_USER_OID}
         UNION ALL SELECT typname FROM pg_catalog.pg_type WHERE oid >= ${FIRST_USER_OID} AND typtype IN ('b', 'd', 'e', 'r', 'm')
           AND typcategory <> 'A') made) AS code,
       ARRAY(SELECT DISTINCT relname::pg_catalog.text FROM pg_catalog.pg_class WHERE oid >= ${FIRST_USER_OID}) AS relations,
       ARRAY(SELECT proname::pg_catalog.text FROM pg_catalog.pg_proc
              WHERE oid < ${FIRST_USER_OID} AND pronamespace = 'pg_catalog'::pg_catalog.regnamespace
              GROUP BY proname
             HAVING pg_catalog.bool_and(provolatile <> 'v' OR proname ~ '^(?:${VOLATILE_AND_READING})$')
                AND proname !~ '^(?:${RUNNING})$') AS reading,
       (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(p.proname, p.prosrc)) FROM pg_catalog.pg_proc p
          JOIN pg_catalog.pg_language l ON l.oid = p.prolang
         WHERE p.oid >= ${FIRST_USER_OID} AND l.lanname NOT IN ('c', 'internal')) AS bodies`;

interface Row {
  readonly code: string[];
  readonly relations: string[];
  readonly reading: string[];
  readonly bodies: (readonly [name: string, body: string])[] | null;
}

/** Reads the names of the session's database. */
export async function readTargetNames(session: Session): Promise<TargetNames> {
  const [row] = await session.query<Row>(NAMES);
  return {
    code: new Set(row?.code),
    relations: new Set(row?.relations),
    reading: new Set(row?.reading),
    executing: executingAmong(row?.bodies ?? []),
  };
}

/** Returns functions that execute a text, directly or by a function that they call. */
function executingAmong(bodies: NonNullable<Row['bodies']>): Set<string> {
  const functions = bodies.map(([name, body]) => ({ name, words: lowerCaseWords(body) }));
  const executing = new Set(functions.filter(({ words }) => words.has('execute')).map(({ name }) => name));
  for (let before = -1; before < executing.size; ) {
    before = executing.size;
    for (const { name, words } of functions) if (sharesAny(executing, words)) executing.add(name);
  }
  return executing;
}

/** Returns the words of a text in lower case. */
export function lowerCaseWords(text: string): Set<string> {
  return new Set(text.toLowerCase().match(/[\p{L}_][\p{L}\d_$]*/gu));
}

export function sharesAny(one: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  return [...other].some((each) => one.has(each));
}
