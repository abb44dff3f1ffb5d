import { loadParser } from './load-parser.ts';
import { parseText } from './parse.ts';
import { constantOf, type Node, nodesWithin, walkTree } from './tree.ts';

/** The statements of a body, by whether it runs them whenever it ends without an error. */
export interface CodePath {
  readonly certain: readonly Node[];
  /** Statements of branches, of loops over rows, of blocks with EXCEPTION, and what follows a conditional RETURN. */
  readonly possible: readonly Node[];
  /** It executes texts that are made at run time. */
  readonly composes: boolean;
  /** It has a COMMIT or ROLLBACK. */
  readonly commits: boolean;
}

interface Parsed {
  readonly stmts?: unknown;
  readonly plpgsql_funcs?: readonly { readonly PLpgSQL_function?: { readonly action?: Step } }[];
}

/** One statement of PL/pgSQL, as the parser prints it. */
type Step = Readonly<Record<string, StepFields>>;

interface StepFields {
  readonly body?: readonly Step[];
  readonly exceptions?: object;
  readonly label?: string;
  readonly sqlstmt?: Expression;
  readonly query?: Expression;
  readonly expr?: Expression;
}

interface Expression {
  readonly PLpgSQL_expr?: { readonly query?: string };
}

/** A text that a statement of the body runs; `isExecuted`: the value of the text is run. */
interface Found {
  readonly text: string;
  readonly isExecuted: boolean;
  readonly isCertain: boolean;
}

interface Way {
  readonly found: readonly Found[];
  /** It may be left before its end: by EXIT or CONTINUE of the innermost loop, */
  readonly leavesLoop: boolean;
  /** or by RETURN, or EXIT or CONTINUE with a label. */
  readonly leavesMore: boolean;
}

const NOTHING: Way = { found: [], leavesLoop: false, leavesMore: false };

/** Reads the body of a DO or CREATE PROCEDURE in PL/pgSQL; null if the parser does not understand it. */
export async function plpgsqlPath(statement: string): Promise<CodePath | null> {
  const action = await actionOf(statement);
  if (!action) return null;
  let commits = false;
  walkTree(action, (kind) => {
    commits ||= kind === 'PLpgSQL_stmt_commit' || kind === 'PLpgSQL_stmt_rollback';
  });
  const path = { certain: [] as Node[], possible: [] as Node[], composes: false, commits };
  for (const { text, isExecuted, isCertain } of wayThrough([action], true).found) {
    const nodes = await nodesOf(text, isExecuted);
    if (nodes === null) return null;
    if (nodes === 'composed') path.composes = true;
    else (isCertain ? path.certain : path.possible).push(...nodes);
  }
  return path;
}

async function actionOf(statement: string): Promise<Step | undefined> {
  try {
    const tree: Parsed = await loadParser().parsePlPgSQL(statement);
    return tree.plpgsql_funcs?.[0]?.PLpgSQL_function?.action;
  } catch {
    return undefined;
  }
}

async function nodesOf(text: string, isExecuted: boolean): Promise<Node[] | 'composed' | null> {
  const parsed = await parseText(Buffer.from(isExecuted ? `SELECT ${text}` : text));
  if (!parsed) return null;
  const nodes = parsed.map(({ node }) => node);
  if (!isExecuted) return nodes;
  const [value, ...others] = nodesWithin(nodes, 'ResTarget');
  const literal = others.length === 0 ? constantOf(value?.val) : undefined;
  return literal === undefined ? 'composed' : await nodesOf(literal, false);
}

function wayThrough(steps: readonly Step[], isReached: boolean): Way {
  return steps.reduce((way, step) => {
    const [[kind, fields] = ['', {}]] = Object.entries(step);
    return both(way, wayOf(kind, fields, isReached && !way.leavesLoop && !way.leavesMore));
  }, NOTHING);
}

const both = (one: Way, other: Way): Way => ({
  found: [...one.found, ...other.found],
  leavesLoop: one.leavesLoop || other.leavesLoop,
  leavesMore: one.leavesMore || other.leavesMore,
});

function wayOf(kind: string, fields: StepFields, isReached: boolean): Way {
  const { body = [], exceptions, label, sqlstmt, expr, query } = fields;
  switch (kind) {
    case 'PLpgSQL_stmt_execsql':
      return running(sqlstmt, isReached);
    case 'PLpgSQL_stmt_call':
    case 'PLpgSQL_stmt_perform':
      return running(expr, isReached);
    case 'PLpgSQL_stmt_dynexecute':
      return running(query, isReached, true);
    case 'PLpgSQL_stmt_return':
      return { ...NOTHING, leavesMore: true };
    case 'PLpgSQL_stmt_exit':
      return { ...NOTHING, leavesLoop: label === undefined, leavesMore: label !== undefined };
    case 'PLpgSQL_stmt_block':
      return exceptions === undefined
        ? wayThrough(body, isReached)
        : both(wayThrough(body, false), branches(exceptions));
    case 'PLpgSQL_stmt_loop':
      return { ...wayThrough(body, isReached), leavesLoop: false };
    // The body of these may never be run.
    case 'PLpgSQL_stmt_while':
    case 'PLpgSQL_stmt_fori':
    case 'PLpgSQL_stmt_forc':
    case 'PLpgSQL_stmt_foreach_a':
      return { ...wayThrough(body, false), leavesLoop: false };
    case 'PLpgSQL_stmt_fors':
    case 'PLpgSQL_stmt_dynfors': {
      const rows = running(query, isReached, kind === 'PLpgSQL_stmt_dynfors');
      return { ...both(rows, wayThrough(body, false)), leavesLoop: false };
    }
    default:
      return branches(fields);
  }
}

/** The lists of statements in the parts of IF and CASE, and in the handlers of a block. */
function branches(part: unknown): Way {
  if (typeof part !== 'object' || part === null) return NOTHING;
  const isList = Array.isArray(part) && part.some((each) => Object.keys(each)[0]?.includes('_stmt_'));
  if (isList) return wayThrough(part as Step[], false);
  return Object.values(part).map(branches).reduce(both, NOTHING);
}

function running(expression: Expression | undefined, isCertain: boolean, isExecuted = false): Way {
  const text = expression?.PLpgSQL_expr?.query;
  return text === undefined ? NOTHING : { ...NOTHING, found: [{ text, isExecuted, isCertain }] };
}
