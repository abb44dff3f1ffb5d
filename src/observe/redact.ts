import type { StatementSection } from '../model/report.ts';
import { loadParser } from '../postgres/sql/load-parser.ts';

/** How a literal may begin: quotes, dollar quotes, numbers, and the letters that stand before quotes (B'', X'', U&'', E''). */
const LITERAL = /^(?:(?:[BXE]|U&)?'|\$(?!\d)|\d|\.\d)/i;
const COMMENT = /^(?:--|\/\*)/;
const PLACEHOLDER = '?';
const HIDDEN = '…';
const UNREADABLE = '[a text that cannot be read as SQL]';

const STRING = /^(?:(?:[BXE]|U&)?'|\$(?!\d))/i;

/** data_exception: its messages quote the value that could not be read. */
const DATA_EXCEPTION = '22';
/** A message that a function makes up (RAISE) may hold anything; so may what it advises. */
const RAISED = /\bat RAISE\b/;
const RAISE_EXCEPTION = 'P0001';
/** Warnings of the server about transactions and privileges; others may be raised by a function. */
const OF_SERVER = /^(?:25|0100[67])/;
/** A syntax error quotes the word that it stands at, or all that is left behind a quote that is not closed. */
const NEAR_LITERAL = /(at or near )"(?:[^"]*['$\d][\s\S]*|[\s\S]{64,})"/;

/**
 * Statements for a report that leaves the house: every literal and comment is replaced, and what errors tell of rows
 * is left out. Names of tables, columns and constraints stay.
 */
export async function redacted(statements: readonly StatementSection[]): Promise<StatementSection[]> {
  const known = new Map<string, string>();
  const result: StatementSection[] = [];
  for (const statement of statements) {
    const { sql, note } = statement;
    // A note is ours, and holds nothing of the client's.
    const shown = note ? sql : (known.get(sql) ?? (await withoutLiterals(sql)));
    if (!note) known.set(sql, shown);
    result.push({
      ...statement,
      sql: shown,
      error: statement.error && withoutValues(statement.error),
      ...(statement.warnings && { warnings: statement.warnings.map(warningWithoutValues) }),
    });
  }
  return result;
}

/** By PostgreSQL's own scanner; text that it does not accept is left out as a whole. */
export function withoutLiterals(sql: string): Promise<string> {
  return replaced(sql, (token) => (COMMENT.test(token) ? '' : LITERAL.test(token) ? PLACEHOLDER : undefined));
}

/** The same for SQL that describes a schema: its numbers are lengths and limits, which say nothing of rows. */
export function withoutStrings(sql: string): Promise<string> {
  return replaced(sql, (token) => (STRING.test(token) ? PLACEHOLDER : undefined));
}

const ANOTHER = `${PLACEHOLDER} /* another */`;

/**
 * The same for the definition of an object before and after. Of the latter, literals that the former has not are shown as
 * another: the difference is to be seen.
 */
export async function bothWithoutStrings<T extends string | null>(
  before: T,
  after: T,
): Promise<{ before: T; after: T }> {
  const known = new Set<string>();
  const first =
    before &&
    (await replaced(before, (token) => {
      if (!STRING.test(token)) return undefined;
      known.add(token);
      return PLACEHOLDER;
    }));
  const second =
    after &&
    (await replaced(after, (token) =>
      STRING.test(token) ? (before === null || known.has(token) ? PLACEHOLDER : ANOTHER) : undefined,
    ));
  return { before: first as T, after: second as T };
}

async function replaced(sql: string, instead: (token: string) => string | undefined): Promise<string> {
  const parser = loadParser();
  const bytes = Buffer.from(sql);
  try {
    const { tokens } = await parser.scan(sql);
    const parts: string[] = [];
    let done = 0;
    for (const { start, end, text } of tokens) {
      const shown = instead(text);
      if (shown === undefined) continue;
      parts.push(bytes.toString('utf8', done, start), shown);
      done = end;
    }
    return (parts.join('') + bytes.toString('utf8', done)).trim();
  } catch {
    return UNREADABLE;
  }
}

/** The message of an error without the values that it quotes. */
export function messageWithoutValues({ sqlstate, message }: { sqlstate: string; message: string }): string {
  if (sqlstate === RAISE_EXCEPTION) return HIDDEN;
  return sqlstate.startsWith(DATA_EXCEPTION)
    ? message.replace(/"(?:[^"]|"")*"/g, `"${PLACEHOLDER}"`)
    : message.replace(NEAR_LITERAL, `$1"${PLACEHOLDER}"`);
}

function warningWithoutValues({ sqlstate, message }: StatementWarning): StatementWarning {
  return { sqlstate, message: OF_SERVER.test(sqlstate) ? message : HIDDEN };
}

type StatementWarning = NonNullable<StatementSection['warnings']>[number];
type StatementError = NonNullable<StatementSection['error']>;

/** DETAIL and CONTEXT hold the values of rows, and may come with any error. */
function withoutValues(error: StatementError): StatementError {
  const raised = error.sqlstate === RAISE_EXCEPTION || RAISED.test(error.where ?? '');
  return {
    ...error,
    message: raised ? HIDDEN : messageWithoutValues(error),
    hint: raised ? null : error.hint,
    detail: null,
    where: null,
    internalQuery: null,
  };
}
