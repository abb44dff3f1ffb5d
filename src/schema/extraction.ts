import type { FactBase } from '@supabase/pg-delta/core';
import { extract } from '@supabase/pg-delta/extract';
import type { Pool } from 'pg';
import type { Session } from '../postgres/connection/session.ts';

/**
 * pg-delta asks its questions one after the other, and works in between. What it asks depends on the server's version
 * and on what the role may read, not on the schema: so it is found out first, by letting it look at a database that
 * answers nothing; then everything is asked, by more than one session; and then it gets its answers, or those of them
 * that matter: making facts of a row takes ten times as long as reading it.
 */
export type Answers = ReadonlyMap<string, Answer>;

export interface Answer {
  readonly columns: readonly string[];
  /** Those columns whose values are JSON, which is text here. */
  readonly json: readonly string[];
  readonly rows: readonly Row[];
}

export type Row = Readonly<Record<string, unknown>>;

/** To a question that need not be asked. What its columns would be is not known. */
export const NO_ROWS: Answer = { columns: [], json: [], rows: [] };

type Ask = (sql: string) => Promise<Pick<Answer, 'rows'>>;

/** Decide what else is asked: the version, privileges, whether there is anything of a kind. */
const DECIDES = /^\s*SELECT (current_setting|has_\w+_privilege|EXISTS)\b/i;
/** Those that came up: they are the same for every server. */
const deciding = new Set<string>();
/** What a server would say to all of them. */
const ANY_SERVER = { version: '18.0', num: 180_000, ok: true, present: false };

/** Finds out what decides, and has the code compiled that asks, so that both need no time later. */
export async function getReadyToAsk(): Promise<void> {
  await factsBy(async (sql) => {
    if (!DECIDES.test(sql)) return NO_ROWS;
    deciding.add(sql);
    return { rows: [ANY_SERVER] };
  });
}

/** What pg-delta asks of the session's database, in its order, and what has been answered of it already. */
export async function questionsTo(
  session: Session,
): Promise<{ questions: string[]; answers: Map<string, Answer> }> {
  const questions: string[] = [];
  const known = [...deciding];
  const together = known.length === 0 ? [] : await askAll(session, known);
  const answers = new Map(together.map((answer, index) => [known[index] ?? '', answer]));
  await factsBy(async (sql) => {
    if (!DECIDES.test(sql)) {
      questions.push(sql);
      return NO_ROWS;
    }
    const answer = answers.get(sql) ?? (await ask(session, sql));
    answers.set(sql, answer);
    deciding.add(sql);
    return answer;
  });
  return { questions, answers };
}

/** pg-delta's facts of the database that gave the answers. */
export function factsFrom(answers: Answers): Promise<FactBase> {
  return factsBy(async (sql) => {
    const answer = answers.get(sql);
    if (!answer) throw new Error(`pg-delta asked what was not foreseen: ${sql}`);
    return { rows: parsed(answer) };
  });
}

function parsed({ rows, json }: Answer): readonly Row[] {
  if (json.length === 0) return rows;
  return rows.map((row) => {
    const values: Record<string, unknown> = { ...row };
    for (const column of json) {
      const value = values[column];
      if (typeof value === 'string') values[column] = JSON.parse(value);
    }
    return values;
  });
}

/** Type OIDs of json and jsonb. */
const JSON_TYPES = new Set([114, 3802]);

export async function ask(session: Session, sql: string): Promise<Answer> {
  const [answer] = await askAll(session, [sql]);
  if (!answer) throw new Error('a question without an answer');
  return answer;
}

/** Waits once for the answers to all. */
export async function askAll({ client }: Session, questions: readonly string[]): Promise<Answer[]> {
  const getTypeParser = (oid: number, format?: 'text' | 'binary') =>
    JSON_TYPES.has(oid) ? asItCame : client.getTypeParser(oid, format);
  // A comment at the end of one must not swallow the next; of several the client gives a list of results.
  const text = questions.map(leaner).join('\n;');
  const results = [await client.query<Row>({ text, types: { getTypeParser } })].flat();
  return results.map(({ fields, rows }) => {
    const json = fields.filter(({ dataTypeID }) => JSON_TYPES.has(dataTypeID));
    return { columns: fields.map(({ name }) => name), json: json.map(({ name }) => name), rows };
  });
}

const asItCame = (text: string) => text;

/** The first OID that is not initdb's. */
const FIRST_NORMAL_OID = 16_384;
/** What has a dependency, or what others depend on, in that catalogue. */
const wanted = (catalogue: string) =>
  `(SELECT DISTINCT e.objid FROM endpoints e WHERE e.classid = 'pg_catalog.${catalogue}'::pg_catalog.regclass)`;
/** These rows of a catalogue before all else that a name is made of. */
const wantedFirst = (rows: string, column: string, catalogue: string) =>
  `FROM ${wanted(catalogue)} wanted JOIN ${rows} ON ${column} = wanted.objid`;
const OF_TABLES = `
      JOIN pg_class cc ON cc.oid = con.conrelid
      JOIN pg_namespace cn ON cn.oid = cc.relnamespace
      WHERE con.`;
/** Each of its columns is looked for, where there are few. */
const COLUMN_NAMES = 'FROM pg_attribute att';
const ofNoUse = (catalogue: string, where: string) => `NOT EXISTS (SELECT FROM pg_catalog.${catalogue} c
  WHERE d.classid = 'pg_catalog.${catalogue}'::pg_catalog.regclass AND c.oid = d.objid AND ${where})`;
/**
 * Of pg-delta's question for dependencies: it has no use for what the server's own objects depend on, nor for indexes of TOAST
 * tables and not-null constraints, which are no facts; and only what something depends on, or what depends on something, needs a
 * name. Without that the server makes names for all 3,000 functions of its own, and of 10,000 tables for 60,000 columns,
 * constraints and indexes too many. The cast keeps the planner from taking a catalogue that was never analysed for one without
 * rows that were made since.
 */
const NARROWER: readonly (readonly [place: string, instead: string])[] = [
  [
    "WHERE d.deptype IN ('n', 'a')",
    `WHERE d.deptype IN ('n', 'a') AND d.objid::pg_catalog.int8 >= ${FIRST_NORMAL_OID}
      AND ${ofNoUse('pg_class', "c.relnamespace = 'pg_toast'::pg_catalog.regnamespace")}
      AND ${ofNoUse('pg_constraint', "c.contype = 'n'")}`,
  ],
  ['FROM pg_class rc', wantedFirst('pg_class rc', 'rc.oid', 'pg_class')],
  [
    `FROM pg_constraint con${OF_TABLES}contype`,
    `${wantedFirst('pg_constraint con', 'con.conindid', 'pg_class')}${OF_TABLES}contype`,
  ],
  [
    `FROM pg_constraint con${OF_TABLES}conrelid`,
    `${wantedFirst('pg_constraint con', 'con.oid', 'pg_constraint')}${OF_TABLES}conrelid`,
  ],
  // Of many columns this takes less time than looking for each.
  [
    'WHERE att.attnum > 0 AND NOT att.attisdropped',
    `WHERE att.attnum > 0 AND NOT att.attisdropped AND att.attrelid IN ${wanted('pg_class')}`,
  ],
  ['FROM pg_proc pp', wantedFirst('pg_proc pp', 'pp.oid', 'pg_proc')],
  ['FROM pg_type tt', wantedFirst('pg_type tt', 'tt.oid', 'pg_type')],
];

/** Of its question for columns: what most columns cannot have is looked for all the same. Each place is there as often as it says. */
const COLUMNS: readonly (readonly [place: string, times: number, more: string])[] = [
  ['AND d.refobjid = c.oid AND d.refobjsubid = a.attnum', 2, " AND a.attidentity <> ''"],
  ['WHERE a.grantee = c.relowner)\n     ) acl', 1, ' WHERE a.attacl IS NOT NULL'],
];

/** The same question with an answer that leads to the same facts, sooner; any other question as it is. */
export function leaner(sql: string): string {
  const has = (place: string, times: number) => sql.split(place).length === times + 1;
  const putting = (places: readonly (readonly [place: string, instead: string])[]) =>
    places.reduce((text, [place, instead]) => text.replaceAll(place, () => instead), sql);
  if (NARROWER.every(([place]) => has(place, 1))) return putting(NARROWER);
  if (COLUMNS.every(([place, times]) => has(place, times)))
    return putting(COLUMNS.map(([place, , more]) => [place, place + more]));
  return withPrivilegesOnce(sql);
}

/** As the question for dependencies looks for the name of an object, by the catalogue that holds it. */
const NAMED = /\n *LEFT JOIN (\w+) +ON \1\.oid += e\.objid AND e\.classid = '(pg_\w+)'::regclass(?=\n)/g;

/**
 * The question for dependencies without looking in catalogues that none of the objects is in: to plan 20 joins takes the server
 * longer than to make most of them.
 * @param linked those that they are in.
 */
export function withoutJoins(sql: string, linked: ReadonlySet<string> | undefined): string {
  if (!linked) return sql;
  const unused = [...sql.matchAll(NAMED)].filter(([, , catalogue = '']) => !linked.has(catalogue));
  return unused.reduce((text, [join, name]) => {
    const without = text
      .replace(join, '')
      .replace(new RegExp(`\\b${name}\\.id\\b`, 'g'), 'NULL::pg_catalog.json');
    // More than the name is wanted of it.
    return new RegExp(`\\b${name}\\.`).test(without) ? text : without;
  }, sql);
}

const PRIVILEGES =
  /ELSE\s+(\(SELECT json_agg\(json_build_object\(\s+'grantee', acl\.grantee_name.*?)END AS acl\b/s;
const RELATIONS = /( FROM pg_class c\n)(.* WHERE (c\.relkind IN \([^)]*\)))/s;

/** What is told of privileges follows from owner and ACL, which are the same for most relations: half of the time goes into it. */
function withPrivilegesOnce(sql: string): string {
  const [[, privileges] = [], [, , , kinds] = []] = [PRIVILEGES.exec(sql) ?? [], RELATIONS.exec(sql) ?? []];
  if (privileges === undefined || kinds === undefined) return sql;
  const key = (of: string) => `coalesce(${of}::pg_catalog.text, '')`;
  return `WITH known AS MATERIALIZED (
      SELECT c.relowner, ${key('c.relacl')} AS relacl, ${privileges} AS acl
      FROM (SELECT DISTINCT ON (c.relowner, ${key('c.relacl')}) c.relowner, c.relacl FROM pg_catalog.pg_class c WHERE ${kinds}) c)
    ${sql
      .replace(PRIVILEGES, () => 'ELSE known.acl END AS acl')
      .replace(
        RELATIONS,
        (_, from: string, rest: string) =>
          `${from} LEFT JOIN known ON known.relowner = c.relowner AND known.relacl = ${key('c.relacl')}\n${rest}`,
      )}`;
}

/** What all questions for relations, and what these consist of, say of them. */
const OF_USERS = "n.nspname NOT IN ('pg_catalog', 'information_schema')";
const ITS_RELATION = / pg_class c ON c\.oid = (\w+\.\w+)/;

/** A question for relations, asked of some of them only; undefined where it is not known how. */
export function onlyOf(sql: string, relations: readonly number[]): string | undefined {
  const [, relation = / FROM pg_class c\n/.test(sql) ? 'c.oid' : undefined] = ITS_RELATION.exec(sql) ?? [];
  const parts = sql.split(OF_USERS);
  if (relation === undefined || parts.length !== 2) return undefined;
  return parts.join(`${relation} = ANY (${oids(relations)}) AND ${OF_USERS}`);
}

const oids = (list: readonly number[]) => `'{${list.join()}}'::pg_catalog.oid[]`;

const isClass = (of: string, ...catalogues: string[]) =>
  `${of} IN (${catalogues.map((name) => `'pg_catalog.${name}'::pg_catalog.regclass`).join()})`;
const partsOf = (catalogue: string, relation: string, relations: string) =>
  `SELECT 'pg_catalog.${catalogue}'::pg_catalog.regclass::pg_catalog.oid, x.oid FROM pg_catalog.${catalogue} x WHERE x.${relation} = ANY (${relations})`;

/**
 * The question for dependencies, asked of those that some relations have, or others have on them, and of whatever is not a part of a
 * relation; undefined where it is not known how.
 */
export function dependenciesOf(sql: string, relations: readonly number[]): string | undefined {
  const [first, where] = ['WITH dep AS (', "WHERE d.deptype IN ('n', 'a')"];
  if (![first, where, COLUMN_NAMES].every((place) => sql.split(place).length === 2)) return undefined;
  const list = oids(relations);
  const parts = [
    partsOf('pg_class', 'oid', list),
    partsOf('pg_constraint', 'conrelid', list),
    partsOf('pg_attrdef', 'adrelid', list),
    partsOf('pg_rewrite', 'ev_class', list),
    partsOf('pg_trigger', 'tgrelid', list),
    partsOf('pg_policy', 'polrelid', list),
    `SELECT 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid, named.oid FROM pg_catalog.pg_class x
      JOIN pg_catalog.pg_type t ON t.oid = x.reltype CROSS JOIN LATERAL (VALUES (t.oid), (t.typarray)) named(oid) WHERE x.oid = ANY (${list})`,
  ];
  const ofRelations = isClass(
    'd.classid',
    'pg_class',
    'pg_constraint',
    'pg_attrdef',
    'pg_rewrite',
    'pg_trigger',
    'pg_policy',
  );
  const apart = `SELECT x.oid FROM pg_catalog.pg_class x WHERE x.relkind IN ('c', 'f')`;
  return sql
    .replace(COLUMN_NAMES, wantedFirst('pg_attribute att', 'att.attrelid', 'pg_class'))
    .replace(
      first,
      `WITH part(classid, objid) AS MATERIALIZED (${parts.join('\nUNION ALL\n')}),
    ${first.slice('WITH '.length)}`,
    )
    .replace(
      where,
      `${where} AND ((d.classid, d.objid) IN (SELECT p.classid, p.objid FROM part p)
        OR (d.refclassid, d.refobjid) IN (SELECT p.classid, p.objid FROM part p)
        OR NOT ${ofRelations} OR (${isClass('d.classid', 'pg_class')} AND d.objid IN (${apart})))`,
    );
}

/** Its answer grows with the number of relations. */
export function isLarge(sql: string): boolean {
  return onlyOf(sql, []) !== undefined || dependenciesOf(sql, []) !== undefined;
}

/** The transaction and its settings are the caller's. */
const OURS = /^\s*(BEGIN|SET|COMMIT|ROLLBACK)\b|\bset_config\(/i;

/** pg-delta opens and commits a transaction of its own on a client of a pool: here there is neither. */
async function factsBy(answer: Ask): Promise<FactBase> {
  const query: Ask = async (sql) => (OURS.test(sql) ? NO_ROWS : await answer(sql));
  const pool = { connect: async () => ({ query, release: () => undefined }) } as unknown as Pool;
  const { factBase } = await extract(pool);
  return factBase;
}
