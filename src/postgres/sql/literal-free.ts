import type * as Tree from 'libpg-query';
import { loadParser } from './load-parser.ts';
import { parseText } from './parse.ts';

/** A statement that pg_stat_statements keeps may be longer than anybody wants to read. */
const LONGEST_TEXT = 20_000;
const COMMENT = /^(?:--|\/\*)/;
const STRING = /^(?:(?:[BXEN]|U&)?'|\$(?!\d))/i;
const NUMBER = /^(?:\d|\.\d)/;
/** The length of a type: `numeric(10, 2)`. The server replaces every number but these. */
const SHORT_NUMBER = /^\d{1,4}$/;

/**
 * Returns a statement of pg_stat_statements without its comments, or null if a literal is left in it: the server replaces those of
 * queries and DML, but not those of utility statements, of which SELECT … INTO is one. By PostgreSQL's own scanner.
 */
export async function literalFree(sql: string): Promise<string | null> {
  if (sql.length > LONGEST_TEXT || (await isUtility(sql))) return null;
  const bytes = Buffer.from(sql);
  const parts: string[] = [];
  let done = 0;
  let previous = '';
  for (const { start, end, text } of await tokensOf(sql)) {
    if (STRING.test(text)) return null;
    if (NUMBER.test(text) && !((previous === '(' || previous === ',') && SHORT_NUMBER.test(text)))
      return null;
    if (COMMENT.test(text)) {
      parts.push(bytes.toString('utf8', done, start));
      done = end;
    } else previous = text;
  }
  parts.push(bytes.toString('utf8', done));
  const bare = parts.join(' ').trim();
  return bare === '' ? null : bare;
}

/** A text that the parser rejects, such as `interval $1`, is none: the server wrote it. */
async function isUtility(sql: string): Promise<boolean> {
  const statements = (await parseText(Buffer.from(sql))) ?? [];
  return statements.some(
    ({ node }) =>
      !/^(?:Select|Insert|Update|Delete|Merge)Stmt$/.test(Object.keys(node)[0] ?? '') ||
      (node as { SelectStmt?: Tree.SelectStmt }).SelectStmt?.intoClause !== undefined,
  );
}

const UNREADABLE = [{ start: 0, end: 0, text: "'" }];

async function tokensOf(sql: string): Promise<readonly { start: number; end: number; text: string }[]> {
  try {
    return (await loadParser().scan(sql)).tokens;
  } catch {
    return UNREADABLE;
  }
}
