import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { SafemigrateError, sqlstateOf } from '../../errors.ts';
import type { CheckSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { isQuery } from '../../postgres/sql/classify-statement.ts';
import { parseText, textOf } from '../../postgres/sql/parse.ts';
import { readText } from './query-source.ts';

/** A query of the user's: `same` before and after, in any order of rows, or `empty` after. */
export interface UserCheck {
  readonly rule: CheckSection['rule'];
  /** The words of the user. */
  readonly name: string;
  readonly sql: string;
}

/** Rows that a check returned, by their digest, so that many of them take little memory. */
interface Rows {
  readonly count: number;
  readonly rows: ReadonlyMap<string, { readonly times: number; readonly shown: string }>;
}

export type CheckResult =
  | { readonly kind: 'rows'; readonly result: Rows }
  | { readonly kind: 'error'; readonly sqlstate: string; readonly message: string };

const FLAGS = { same: '--check', empty: '--check-empty' } as const;

/**
 * Reads checks as the user gave them: the name of a file, or SQL.
 * @throws SafemigrateError `CONFIGURATION` for what is neither, or not one query.
 */
export async function readChecks(
  texts: readonly string[],
  rule: UserCheck['rule'],
  folder: string,
): Promise<UserCheck[]> {
  return await Promise.all(texts.map((text) => readCheck(text, rule, folder)));
}

async function readCheck(given: string, rule: UserCheck['rule'], folder: string): Promise<UserCheck> {
  const name = given.trim();
  const file = resolve(folder, name);
  // A query of a single word there is not.
  const isFile = !/\s/.test(name) || existsSync(file);
  const text = isFile ? readText(file, FLAGS[rule]) : Buffer.from(name);
  const [statement, ...others] = (await parseText(text)) ?? [];
  if (!statement || others.length > 0 || !isQuery(statement.node)) {
    throw new SafemigrateError('CONFIGURATION', `${FLAGS[rule]}: "${name}" does not hold one query.`, {
      hint: 'Give one SELECT, or the name of a file that holds one. Nothing was touched.',
    });
  }
  return { rule, name, sql: textOf(text, statement.from, statement.to) };
}

const STATEMENT_TIMEOUT_MS = 60_000;
const BEGIN = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY';
// The names in a check are the application's, as in its own sessions.
const OWN_PATH = 'RESET search_path';
const TIMEOUT = `SET LOCAL statement_timeout = ${STATEMENT_TIMEOUT_MS}`;
const ROLLBACK = 'ROLLBACK';
const FETCH = 'FETCH 5000 FROM safemigrate_check';
const AT_MOST = 100_000;
const SHOWN_CHARACTERS = 200;

/** Runs the check in a transaction that can change nothing. */
export async function runCheck(session: Session, { sql }: UserCheck): Promise<CheckResult> {
  await session.query(OWN_PATH);
  await session.query(BEGIN);
  try {
    await session.query(TIMEOUT);
    // A line comment may stand at its end.
    await session.query(`DECLARE safemigrate_check NO SCROLL CURSOR FOR ${sql}\n`);
    return { kind: 'rows', result: await fetchAll(session) };
  } catch (error) {
    const sqlstate = sqlstateOf(error);
    if (sqlstate === undefined || !(error instanceof Error) || error instanceof SafemigrateError) throw error;
    return { kind: 'error', sqlstate, message: error.message };
  } finally {
    // A lost connection has rolled back by itself, and the failure that is under way says so.
    await session.query(ROLLBACK).catch(() => undefined);
  }
}

/** Values as the server writes them: made into values of JavaScript, times would lose their microseconds. */
const AS_TEXT = { getTypeParser: () => (text: string | Buffer) => text.toString() };

async function fetchAll(session: Session): Promise<Rows> {
  const rows = new Map<string, { times: number; shown: string }>();
  let count = 0;
  for (;;) {
    const query = { text: FETCH, rowMode: 'array' as const, types: AS_TEXT };
    const { rows: chunk } = await session.client.query<(string | null)[]>(query);
    if (chunk.length === 0) return { count, rows };
    count += chunk.length;
    if (count > AT_MOST) throw tooMany();
    for (const row of chunk) {
      const text = JSON.stringify(row);
      const digest = createHash('sha256').update(text).digest('base64');
      const known = rows.get(digest);
      if (known) known.times++;
      else rows.set(digest, { times: 1, shown: cut(text) });
    }
  }
}

function cut(text: string): string {
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
}

/** program_limit_exceeded, in the server's own form, since it is as good as an error of the query. */
function tooMany(): Error {
  const message = `the check returns more than ${AT_MOST} rows: let it aggregate them`;
  return Object.assign(new Error(message), { code: '54000', severity: 'ERROR' });
}

const SAMPLED_ROWS = 5;

/** @param before null for a check that needs no result from before. */
export function compareCheck(
  { rule, name }: Pick<UserCheck, 'rule' | 'name'>,
  before: CheckResult | null,
  after: CheckResult,
): CheckSection {
  const base = { name, rule, rowsBefore: countOf(before), rowsAfter: countOf(after), missing: [], added: [] };
  const failed = before?.kind === 'error' ? before : after;
  if (failed.kind === 'error') {
    const { sqlstate, message } = failed;
    const when = failed === before ? 'before' : 'after';
    return { ...base, passed: false, error: { when, sqlstate, message } };
  }
  const then = before?.kind === 'rows' ? before.result : NONE;
  const missing = without(then, failed.result);
  const added = without(failed.result, then);
  return {
    ...base,
    passed: missing.length === 0 && added.length === 0,
    error: null,
    missing: missing.slice(0, SAMPLED_ROWS),
    added: added.slice(0, SAMPLED_ROWS),
  };
}

/** No row is what an `empty` check must return: the same as if it had returned none before. */
const NONE: Rows = { count: 0, rows: new Map() };

function countOf(result: CheckResult | null): number | null {
  return result?.kind === 'rows' ? result.result.count : null;
}

/** Rows of the first that the second has not, or not as often. */
function without(one: Rows, other: Rows): string[] {
  return [...one.rows].flatMap(([digest, { times, shown }]) =>
    times > (other.rows.get(digest)?.times ?? 0) ? [shown] : [],
  );
}
