import type { FactBase } from '@supabase/pg-delta/core';
import { extract } from '@supabase/pg-delta/extract';
import type { Pool } from 'pg';
import type { Session } from '../target/session.ts';

/**
 * pg-delta asks its questions one after the other, and works in between. What it asks depends on the server's version
 * and on what the role may read, not on the schema: so it is found out first, by letting it look at a database that
 * answers nothing; then everything is asked, by more than one session; and then it gets its answers.
 */
export type Answers = Map<string, Rows>;

interface Rows {
  readonly rows: readonly object[];
}

type Answer = (sql: string) => Promise<Rows>;

/** Decide what else is asked: the version, privileges, whether there is anything of a kind. */
const DECIDES = /^\s*SELECT (current_setting|has_\w+_privilege|EXISTS)\b/i;

/** What pg-delta asks of the session's database, in its order, and what has been answered of it already. */
export async function questionsTo(session: Session): Promise<{ questions: string[]; answers: Answers }> {
  const questions: string[] = [];
  const answers: Answers = new Map();
  await factsBy(async (sql) => {
    if (!DECIDES.test(sql)) {
      questions.push(sql);
      return NONE;
    }
    const answer = await ask(session, sql);
    answers.set(sql, answer);
    return answer;
  });
  return { questions, answers };
}

/** pg-delta's facts of the database that gave the answers, which are used up: they are large. */
export async function factsFrom(answers: Answers): Promise<FactBase> {
  return await factsBy(async (sql) => {
    const answer = answers.get(sql);
    if (!answer) throw new Error(`pg-delta asked what was not foreseen: ${sql}`);
    answers.delete(sql);
    return answer;
  });
}

export function ask(session: Session, sql: string): Promise<Rows> {
  return session.client.query(leaner(sql));
}

/** The first OID that is not initdb's. */
const FIRST_NORMAL_OID = 16_384;
const of = (catalogue: string) =>
  `(SELECT e.objid FROM endpoints e WHERE e.classid = 'pg_catalog.${catalogue}'::pg_catalog.regclass)`;
/**
 * Of pg-delta's question for dependencies: what the server's own objects depend on is of no use to it, and of functions and
 * types only those that something depends on, or that depend on something, need names. Without that the server makes names
 * for all 3,000 functions of its own. The cast keeps the planner from taking a catalogue that was never analysed for one
 * without rows that were made since.
 */
const NARROWER: readonly (readonly [string, string])[] = [
  ["WHERE d.deptype IN ('n', 'a')", ` AND d.objid::pg_catalog.int8 >= ${FIRST_NORMAL_OID}`],
  ["WHERE pp.prokind IN ('f','p','a','w')", ` AND pp.oid IN ${of('pg_proc')}`],
  ["WHERE base.typtype IN ('d', 'e', 'c', 'r')", ` AND tt.oid IN ${of('pg_type')}`],
];

/** The same question with an answer that leads to the same facts, sooner; any other question as it is. */
export function leaner(sql: string): string {
  if (!NARROWER.every(([place]) => sql.split(place).length === 2)) return sql;
  return NARROWER.reduce((text, [place, more]) => text.replace(place, place + more), sql);
}

const NONE: Rows = { rows: [] };
/** The transaction and its settings are the caller's. */
const OURS = /^\s*(BEGIN|SET|COMMIT|ROLLBACK)\b|\bset_config\(/i;

/** pg-delta opens and commits a transaction of its own on a client of a pool: here there is neither. */
async function factsBy(answer: Answer): Promise<FactBase> {
  const query: Answer = async (sql) => (OURS.test(sql) ? NONE : await answer(sql));
  const pool = { connect: async () => ({ query, release: () => undefined }) } as unknown as Pool;
  const { factBase } = await extract(pool);
  return factBase;
}
