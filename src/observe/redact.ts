import type { StatementSection } from '../report/model.ts';

/** How a literal may begin: quotes, dollar quotes, numbers, and the letters that stand before quotes (B'', X'', U&'', E''). */
const LITERAL = /^(?:(?:[BXE]|U&)?'|\$(?!\d)|\d|\.\d)/i;
const COMMENT = /^(?:--|\/\*)/;
const PLACEHOLDER = '?';
const UNREADABLE = '[a text that cannot be read as SQL]';

/** data_exception: its messages quote the value that could not be read. */
const DATA_EXCEPTION = '22';

/**
 * Statements for a report that leaves the house: every literal and comment is replaced, and what errors tell of rows
 * is left out. Names of tables, columns and constraints stay.
 */
export async function redacted(statements: readonly StatementSection[]): Promise<StatementSection[]> {
  const known = new Map<string, string>();
  const result: StatementSection[] = [];
  for (const statement of statements) {
    const { sql } = statement;
    const shown = known.get(sql) ?? (await withoutLiterals(sql));
    known.set(sql, shown);
    result.push({ ...statement, sql: shown, error: statement.error && withoutValues(statement.error) });
  }
  return result;
}

/** By PostgreSQL's own scanner; text that it does not accept is left out as a whole. */
export async function withoutLiterals(sql: string): Promise<string> {
  // A note of ours in the place of a text that is not shown.
  if (sql.startsWith('[')) return sql;
  const { scan } = await import('libpg-query');
  const bytes = Buffer.from(sql);
  try {
    const { tokens } = await scan(sql);
    const parts: string[] = [];
    let done = 0;
    for (const { start, end, text } of tokens) {
      const replaced = COMMENT.test(text) ? '' : LITERAL.test(text) ? PLACEHOLDER : undefined;
      if (replaced === undefined) continue;
      parts.push(bytes.toString('utf8', done, start), replaced);
      done = end;
    }
    return (parts.join('') + bytes.toString('utf8', done)).trim();
  } catch {
    return UNREADABLE;
  }
}

type StatementError = NonNullable<StatementSection['error']>;

/** DETAIL and CONTEXT hold the values of rows, and may come with any error. */
function withoutValues(error: StatementError): StatementError {
  const message = error.sqlstate.startsWith(DATA_EXCEPTION)
    ? error.message.replace(/"(?:[^"]|"")*"/g, `"${PLACEHOLDER}"`)
    : error.message;
  return { ...error, message, detail: null, where: null, internalQuery: null };
}
