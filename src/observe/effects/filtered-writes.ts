import { sqlstateOf } from '../../errors.ts';
import type { FilteredWrite } from '../../model/effect-facts.ts';
import type { StatementSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, identifier } from '../../postgres/sql/quote.ts';
import { isWord, slice, type Token, tokensOf } from '../../postgres/sql/tokens.ts';
import type { ParsedStatements } from './already-there.ts';

/** Statements of the command, and the roles that its sessions began with. */
export interface SentStatements extends ParsedStatements {
  readonly sessions: ReadonlyMap<number, { readonly user: string }>;
}

/** Tells if a statement may run because of us. */
export type MayRun = (sql: string) => Promise<boolean>;

/** A session that may write to the clone, and how much time it has. */
export interface Trial {
  readonly session: Session;
  readonly sent: SentStatements;
  readonly mayRun: MayRun;
  /** The id of the next transaction before the command. */
  readonly since: number;
  /** Time that is left. */
  readonly leftMs: () => number;
}

interface Counted {
  readonly rows: number;
  readonly role: string;
}

/** Time for one statement. */
const TIMEOUT_MS = 5_000;

const beginning = (timeoutMs: number) => [
  'BEGIN READ WRITE',
  `SET LOCAL statement_timeout = ${Math.max(1, Math.ceil(timeoutMs))}`,
  "SET LOCAL lock_timeout = '100ms'",
  'SET LOCAL row_security = on',
  // Sessions of ours find nothing by a name without a schema.
  'RESET search_path',
];

/** Number of statements that are compared at most. */
const MOST = 20;

const SECURED = `
select n.nspname as schema, c.relname as name
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relrowsecurity and c.relkind in ('r', 'p')`;

/**
 * Compares the rows that an UPDATE or DELETE finds with those that it would find without row security. Both are counted on the clone
 * after the command, with the role and the settings that its session had, in transactions that are rolled back. Statements with
 * parameters or a WITH that writes are left out, and so are those whose conditions or settings must not run once more.
 */
export async function readFilteredWrites(
  session: Session,
  sent: SentStatements,
  mayRun: MayRun,
): Promise<FilteredWrite[]> {
  const secured = await session.query<{ schema: string; name: string }>(SECURED);
  if (secured.length === 0) return [];
  const found: FilteredWrite[] = [];
  let compared = 0;
  for (const statement of sent.statements.filter(({ error }) => error === null)) {
    const table = writtenBy(sent, statement);
    const relation = secured.find(
      ({ schema, name }) => table?.name === name && (table.schema === null || table.schema === schema),
    );
    const count = relation && (await countOf(statement.sql));
    if (!relation || !count || compared++ >= MOST) continue;
    const settings = await settingsOf(sent, statement, mayRun);
    if (!settings || !(await mayRun(count))) continue;
    const off = `ALTER TABLE ${identifier(relation.schema)}.${identifier(relation.name)} DISABLE ROW LEVEL SECURITY`;
    const seen = await counted(session, [...settings, count]);
    const all = seen && (await counted(session, [off, ...settings, count]));
    // Row security may have been off, or not forced, while the statement ran.
    if (!all || all.rows <= seen.rows || (statement.rows ?? 0) >= all.rows) continue;
    found.push({
      statement: statement.index,
      relation: displayName(relation.schema, relation.name),
      role: seen.role,
      missed: all.rows - seen.rows,
    });
  }
  return found;
}

function writtenBy({ parsed }: SentStatements, { index }: StatementSection) {
  const [action] = parsed.get(index)?.actions ?? [];
  return action?.does === 'update' || action?.does === 'delete' ? action.table : undefined;
}

const VERBS = ['UPDATE', 'DELETE', 'INSERT', 'MERGE', 'SELECT'];

/** The parts of an UPDATE or DELETE, as texts. */
export interface WriteParts {
  /** A WITH that only reads; empty if there is none. */
  readonly within: string;
  readonly target: string;
  /** SET of an UPDATE. */
  readonly set: string;
  /** FROM or USING. */
  readonly others: string;
  readonly condition: string;
}

/** Reads `UPDATE t SET … FROM u WHERE …` or `DELETE FROM t USING u WHERE …`; null for statements with another form. */
export async function partsOfWrite(sql: string): Promise<WriteParts | null> {
  const tokens = await tokensOf(sql);
  const begin = tokens.findIndex((token) => VERBS.some((verb) => isWord(token, verb)));
  const verb = tokens[begin];
  const isUpdate = verb !== undefined && isWord(verb, 'UPDATE');
  const isDelete = verb !== undefined && isWord(verb, 'DELETE');
  if (!(isUpdate || isDelete) || tokens.some(({ text }) => /^\$\d/.test(text))) return null;
  if (begin > 0 && !onlyReads(tokens.slice(0, begin))) return null;
  const at = (word: string, from = begin) =>
    tokens.findIndex((token, place) => place > from && isWord(token, word));
  const partOf = (from: number, ...ends: number[]) => {
    const end = Math.min(...ends.filter((place) => place > from), tokens.length);
    return from < 0 ? '' : between(sql, tokens, from + 1, end);
  };
  const [where, returning] = [at('WHERE'), at('RETURNING')];
  const sets = at('SET');
  const more = isUpdate ? at('FROM', sets) : at('USING');
  const end = tokens.findIndex(({ text }) => text === ';');
  if (where >= 0 && tokens[where + 1] && isWord(tokens[where + 1] as Token, 'CURRENT')) return null;
  return {
    within: begin === 0 ? '' : `${between(sql, tokens, 0, begin)} `,
    target: partOf(isUpdate ? begin : begin + 1, isUpdate ? sets : more, where, returning, end),
    set: isUpdate ? partOf(sets, more, where, returning, end) : '',
    others: partOf(more, where, returning, end),
    condition: partOf(where, returning, end),
  };
}

/** Writes the query that counts the rows that an UPDATE or DELETE finds; null for statements with another form. */
export async function countOf(sql: string): Promise<string | null> {
  const parts = await partsOfWrite(sql);
  if (!parts) return null;
  const { within, target, others, condition } = parts;
  return `${within}SELECT pg_catalog.count(*)::pg_catalog.int8 AS rows, current_user AS role FROM ${target}${others && `, ${others}`}${condition && ` WHERE ${condition}`}`;
}

/** Tells if this is a WITH whose queries write nothing. */
function onlyReads(tokens: readonly Token[]): boolean {
  const writes = tokens.some(
    ({ text }, at) => tokens[at - 1]?.text === '(' && VERBS.slice(0, 4).includes(text.toUpperCase()),
  );
  return tokens[0] !== undefined && isWord(tokens[0], 'WITH') && !writes;
}

function between(sql: string, tokens: readonly Token[], from: number, to: number): string {
  return slice(sql, tokens[from]?.from ?? 0, tokens[to]?.from);
}

const SETS = /^(?:SET|RESET)$/;
const IS_LOCAL = /^\s*SET\s+LOCAL\b/i;

/** Statements that give a session the role and the settings that another one had; null: not all of them may run. */
export async function settingsOf(
  sent: SentStatements,
  statement: StatementSection,
  mayRun: MayRun,
): Promise<string[] | null> {
  const own = settingsBefore(sent, statement);
  for (const sql of own) if (!(await mayRun(sql))) return null;
  return [...asUser(sent, statement), ...own];
}

function asUser({ sessions }: SentStatements, { session }: StatementSection): string[] {
  const user = sessions.get(session)?.user;
  return user === undefined ? [] : [`SET LOCAL SESSION AUTHORIZATION ${identifier(user)}`];
}

/** The command's own statements that give a session the role and the settings that it had before a statement. */
function settingsBefore(
  { statements }: SentStatements,
  { session, index, transaction }: StatementSection,
): string[] {
  return (
    statements
      .filter((each) => each.session === session && each.index < index && each.error === null)
      .filter(
        ({ tag, sql }) => SETS.test(tag ?? '') || /^\s*SELECT\s+(?:pg_catalog\.)?set_config\(/i.test(sql),
      )
      // What one transaction sets for itself ends with it.
      .filter((each) => !IS_LOCAL.test(each.sql) || each.transaction === transaction)
      .filter(({ sql }) => !/\b(?:statement_timeout|lock_timeout|transaction)\b/i.test(sql))
      .map(({ sql }) => sql)
  );
}

async function counted(session: Session, statements: readonly string[]): Promise<Counted | null> {
  const row = await triedRow<{ rows: string | number; role: string }>(session, statements);
  return row ? { rows: Number(row.rows), role: row.role } : null;
}

/**
 * Returns the first row of the last statement, all of which run in a transaction that is rolled back; null: it could not be read in time, or
 * the role of the session may not read it.
 */
export async function triedRow<Row extends object>(
  session: Session,
  statements: readonly string[],
  timeoutMs = TIMEOUT_MS,
): Promise<Row | null> {
  try {
    return (await triedInRollback<Row>(session, statements, timeoutMs))?.[0] ?? null;
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    return null;
  }
}

/** Runs statements in a transaction that is rolled back, and returns the rows of the last one. @throws the error of the server. */
export async function triedInRollback<Row extends object>(
  session: Session,
  statements: readonly string[],
  timeoutMs: number,
): Promise<Row[] | undefined> {
  try {
    return (await session.queryAll<Row>([...beginning(timeoutMs), ...statements])).at(-1);
  } finally {
    await session.query('ROLLBACK');
  }
}
