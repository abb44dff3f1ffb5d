import type * as Tree from 'libpg-query';
import { fieldsIf } from './classify-statement.ts';
import { loadParser } from './load-parser.ts';
import { parseText, textOf } from './parse.ts';
import { type Node, nodesWithin, optionOf, strings, walkTree } from './tree.ts';

/** The content of a text of code. */
export interface Code {
  readonly nodes: readonly Node[];
  /** The texts of those that are whole statements. */
  readonly texts: ReadonlyMap<Node, string>;
  /** Literals of which the code puts texts together that it executes. */
  readonly dynamic: readonly string[];
  /** It executes a text that is more than one literal: what that says is known only when it runs. */
  readonly composes: boolean;
  /** Types of its variables, as it writes them. */
  readonly types: readonly string[];
}

const NOTHING_DYNAMIC = { dynamic: [], composes: false, types: [] } as const;

/** The parser could not read the code. */
export const UNREADABLE = 'unreadable';

/** Returns the statements of a text of SQL. */
export async function sqlCode(text: string): Promise<Code | typeof UNREADABLE> {
  const bytes = Buffer.from(text);
  const statements = await parseText(bytes);
  if (!statements) return UNREADABLE;
  const texts = new Map(statements.map(({ node, from, to }) => [node, textOf(bytes, from, to)]));
  return { nodes: [...texts.keys()], texts, ...NOTHING_DYNAMIC };
}

/** Returns the statements of a function's body in SQL. @param statement the whole CREATE FUNCTION or CREATE PROCEDURE. */
export async function sqlBody(statement: string, language: string): Promise<Code | typeof UNREADABLE> {
  const code = language === 'sql' ? await sqlCode(statement) : UNREADABLE;
  if (code === UNREADABLE) return UNREADABLE;
  const created = fieldsIf(code.nodes[0] ?? {}, 'CreateFunctionStmt');
  // BEGIN ATOMIC and RETURN: the statements are part of the tree.
  if (created?.sql_body)
    return { nodes: [{ SelectStmt: created.sql_body }], texts: new Map(), ...NOTHING_DYNAMIC };
  const body = optionOf(created?.options, 'as')?.arg;
  return await sqlCode(body && 'List' in body ? (strings(body.List.items)[0] ?? '') : '');
}

/** A PL/pgSQL expression as the parser prints it: with its text, and what kind of text it is. */
interface Expression {
  readonly query: string;
  readonly parseMode?: number;
}

/** RawParseMode of a whole statement; 2 is an expression, those above assign one. */
const WHOLE_STATEMENT = 0;
const PLAIN_EXPRESSION = 2;

/** Returns the statements and expressions of PL/pgSQL. @param statement the whole CREATE FUNCTION, CREATE PROCEDURE or DO. */
export async function plpgsqlCode(statement: string): Promise<Code | typeof UNREADABLE> {
  let tree: unknown;
  try {
    tree = await loadParser().parsePlPgSQL(statement);
  } catch {
    return UNREADABLE;
  }
  const executed = new Set<object>();
  const expressions: Expression[] = [];
  const types: string[] = [];
  let isPlpgsql = false;
  walkTree(tree, (key, fields) => {
    isPlpgsql ||= key === 'PLpgSQL_function';
    if (key === 'PLpgSQL_type') types.push((fields as { readonly typname?: string }).typname ?? '');
    for (const part of executedPartsOf(key, fields)) executed.add(part);
    if (key === 'PLpgSQL_expr') expressions.push(fields as Expression);
  });
  // The parser answers with nothing for a function of SQL that names no language.
  if (!isPlpgsql) return UNREADABLE;
  const nodes: Node[] = [];
  const texts = new Map<Node, string>();
  const dynamic: string[] = [];
  let composes = false;
  for (const expression of expressions) {
    const code = await codeOf(expression);
    if (code === UNREADABLE) return UNREADABLE;
    const own = code.nodes;
    nodes.push(...own);
    if ((expression.parseMode ?? WHOLE_STATEMENT) === WHOLE_STATEMENT)
      for (const [node, text] of code.texts) texts.set(node, text);
    if (!executed.has(expression)) continue;
    dynamic.push(...literalsOf(own));
    composes ||= !isLiteral(own);
  }
  return { nodes, texts, dynamic, composes, types };
}

/** The expressions whose value is executed: EXECUTE, FOR … IN EXECUTE, RETURN QUERY EXECUTE, OPEN … FOR EXECUTE. */
function executedPartsOf(key: string, fields: object): object[] {
  const { query, dynquery } = fields as { query?: unknown; dynquery?: unknown };
  const own =
    key === 'PLpgSQL_stmt_dynexecute' || key === 'PLpgSQL_stmt_dynfors' ? [query, dynquery] : [dynquery];
  return own.flatMap((part) => {
    const expression = (part as { PLpgSQL_expr?: object } | undefined)?.PLpgSQL_expr;
    return expression ? [expression] : [];
  });
}

function codeOf({ query, parseMode = WHOLE_STATEMENT }: Expression) {
  return sqlCode(asStatement(query, parseMode));
}

function asStatement(query: string, parseMode: number): string {
  if (parseMode === WHOLE_STATEMENT) return query;
  if (parseMode === PLAIN_EXPRESSION) return `SELECT ${query}`;
  // `target := value` or `target = value`
  return `SELECT ${query.includes(':=') ? query.replace(':=', ',') : query.replace('=', ',')}`;
}

/** Tells whether an expression, which is parsed as a SELECT of it, is one literal. */
function isLiteral(expression: readonly Node[]): boolean {
  const [target, ...others] = nodesWithin(expression, 'ResTarget');
  return others.length === 0 && target?.val !== undefined && 'A_Const' in target.val;
}

/** The texts that stand as literals in a part of a tree. */
export function literalsOf(part: unknown): string[] {
  return nodesWithin(part, 'A_Const').flatMap(({ sval }) => (sval?.sval ? [sval.sval] : []));
}

/** The language that a DO or CREATE FUNCTION says. */
export function languageOf(options: readonly Tree.Node[] | undefined): string {
  const language = optionOf(options, 'language')?.arg;
  return language ? (strings([language])[0] ?? '').toLowerCase() : 'plpgsql';
}
