import type * as Tree from 'libpg-query';
import type { ColumnBefore, RelationBefore } from '../observe/tables-before.ts';
import { parseText } from '../postgres/sql/parse.ts';
import { displayName, identifier } from '../postgres/sql/quote.ts';
import { slice, type Token, tokensOf } from '../postgres/sql/tokens.ts';
import type { Node } from '../postgres/sql/tree.ts';

/** A statement that the command sent. */
export interface ReadStatement {
  /** With its parameters in place, without the semicolon or a comment at the end. */
  readonly sql: string;
  readonly node: Node;
  readonly tokens: readonly Token[];
  /** Codes of the hazards that were found in it. */
  readonly codes: ReadonlySet<string>;
  /** Number of rows that it changed. */
  readonly rows: number;
  /** The relation's name as in the report. */
  relation(range: Tree.RangeVar | undefined): string;
  /** Tells if a column that it adds or retypes gives the table a new file. */
  rewrites(column: string): boolean;
  /** Its columns that the command made NOT NULL. */
  newlyNotNull(range: Tree.RangeVar | undefined): readonly string[];
}

/** Relations and columns as they were before the command. */
export interface Before {
  readonly relations: ReadonlyMap<string, RelationBefore>;
  /** Columns whose type it changes, by qualified name. */
  readonly columns: ReadonlyMap<string, ColumnBefore>;
}

/** A statement to rewrite. */
export interface Subject extends ReadStatement {
  /** undefined: the relation did not exist before the command, or has another name then. */
  before(range: Tree.RangeVar | undefined): RelationBefore | undefined;
  /** undefined: the same, or its type stays. */
  columnBefore(range: Tree.RangeVar | undefined, column: string): ColumnBefore | undefined;
}

/** Adds the facts from before the command. */
export function subjectWith(sent: ReadStatement, { relations, columns }: Before): Subject {
  return {
    ...sent,
    before: (range) => relations.get(sent.relation(range)),
    columnBefore: (range, column) => columns.get(`${sent.relation(range)}.${displayName(column)}`),
  };
}

/** An ALTER TABLE, taken apart. */
export interface AlterTable {
  readonly subject: Subject;
  readonly table: Tree.RangeVar | undefined;
  /** The table as the statement names it. */
  readonly written: string;
}

/** One statement in place of another, outside of a transaction. */
export interface ScriptStep {
  readonly sql: string;
  /** It keeps no session from a whole table while it waits for others, and must not give up half-way. */
  readonly waits?: true;
}

/** Statements that take the place of another one, or why it is left as it was. */
export type Rewriting = readonly ScriptStep[] | { readonly reason: string };

export const step = (sql: string): ScriptStep => ({ sql });
export const waiting = (sql: string): ScriptStep => ({ sql, waits: true });
export const left = (reason: string): Rewriting => ({ reason });
export const isLeft = (rewriting: Rewriting): rewriting is Exclude<Rewriting, readonly ScriptStep[]> =>
  'reason' in rewriting;

/** Reads one statement of a text; null if the text is not exactly one. @param values of its parameters, as SQL. */
export async function readStatement(
  text: string,
  values: readonly string[],
): Promise<Pick<Subject, 'sql' | 'node' | 'tokens'> | null> {
  const given = values.length === 0 ? text : withValues(text, await tokensOf(text), values);
  const parsed = await parseText(Buffer.from(given));
  const [statement] = parsed ?? [];
  if (!statement || parsed?.length !== 1) return null;
  const tokens = (await tokensOf(given)).filter(({ text: token, depth }) => token !== ';' || depth > 0);
  const sql = slice(given, 0, tokens.at(-1)?.to);
  // What a comment before the statement takes, the parser counts as well.
  return { sql, node: statement.node, tokens };
}

function withValues(text: string, tokens: readonly Token[], values: readonly string[]): string {
  const parts: string[] = [];
  const bytes = Buffer.from(text);
  let from = 0;
  for (const token of tokens) {
    if (!/^\$\d+$/.test(token.text)) continue;
    parts.push(bytes.toString('utf8', from, token.from), values[Number(token.text.slice(1)) - 1] ?? 'NULL');
    from = token.to;
  }
  return [...parts, bytes.toString('utf8', from)].join('');
}

/** The name of a relation as the statement writes it, without an alias: it may be a word of the language in quotes. */
export function writtenName({ sql, tokens }: Subject, range: Tree.RangeVar | undefined): string {
  const first = tokens.findIndex(({ from }) => from === (range?.location ?? 0));
  let last = first;
  while (tokens[last + 1]?.text === '.') last += 2;
  return slice(sql, tokens[first]?.from ?? 0, tokens[last]?.to);
}

/** In SQL, quoted if it has to be. A word of the language may be a name as well, so that such words are quoted. */
export function columnList(columns: readonly string[]): string {
  return columns.map(identifier).join(', ');
}
