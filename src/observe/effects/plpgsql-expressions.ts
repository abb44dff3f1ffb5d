import { loadParser } from '../../postgres/sql/load-parser.ts';
import { walkTree } from '../../postgres/sql/tree.ts';

/** PL/pgSQL's RawParseMode of a whole statement; 2 is an expression, 3 to 5 are assignments. */
const STATEMENT = 0;
const EXPRESSION = 2;

/** A query of a body, or an expression as a query. */
export interface BodyQuery {
  readonly sql: string;
  /** RETURN QUERY returns its rows. */
  readonly isReturned: boolean;
}

/**
 * Reads a function in PL/pgSQL as CREATE FUNCTION writes it.
 * @returns its queries and expressions, each as a query, and the declared types of its variables: null for a record, whose type is
 * known only when the function runs; null if the parser does not understand it.
 */
export async function expressionsOf(definition: string) {
  let tree: unknown;
  try {
    tree = await loadParser().parsePlPgSQL(definition);
  } catch {
    return null;
  }
  const variables = new Map<string, string | null>();
  const expressions: BodyQuery[] = [];
  const returned = new Set<unknown>();
  walkTree(tree, (kind, fields) => {
    if (kind === 'PLpgSQL_stmt_return_query')
      returned.add((fields as { query?: { PLpgSQL_expr?: unknown } }).query?.PLpgSQL_expr);
    if (kind === 'PLpgSQL_expr')
      expressions.push(...queriesOf(fields).map((sql) => ({ sql, isReturned: returned.has(fields) })));
    if (kind !== 'PLpgSQL_var' && kind !== 'PLpgSQL_rec') return;
    const { refname, datatype } = fields as {
      refname?: string;
      datatype?: { PLpgSQL_type?: { typname?: string } };
    };
    if (refname === undefined || variables.has(refname)) return;
    const type = datatype?.PLpgSQL_type?.typname?.replace(/%rowtype$/i, '') ?? 'record';
    variables.set(refname, type === 'record' || type === 'refcursor' ? null : type);
  });
  return { variables: [...variables].map(([name, type]) => ({ name, type })), expressions };
}

function queriesOf({ query = '', parseMode = STATEMENT }: { query?: string; parseMode?: number }): string[] {
  if (parseMode === STATEMENT) return [query];
  if (parseMode === EXPRESSION) return [`SELECT ${query}`];
  const [, target = '', value = ''] = /^(.*?):?=(.*)$/s.exec(query) ?? [];
  return [`SELECT ${value}`, ...(/^\s*(?:new|old)\s*\./i.test(target) ? [`SELECT ${target}`] : [])];
}
