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
  return session.client.query(sql);
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
