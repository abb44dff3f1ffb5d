import type * as Tree from 'libpg-query';
import { loadParser } from './load-parser.ts';
import { itemsOf, nodesWithin, strings, walkTree } from './tree.ts';

/** Texts that a statement lists, for one value to be one of them. */
export interface LabelList {
  readonly values: ReadonlySet<string>;
  /** Another value is an error. */
  readonly fails: boolean;
  /** A condition that the query selects holds only for the values: it is the list, or the list AND something else. */
  readonly isAlone: boolean;
}

/** Reads the lists of a query: `IN (…)`, `= ANY (ARRAY[…])`, comparisons joined by OR, CASE without an ELSE. None if it is not understood. */
export async function labelLists(sql: string): Promise<LabelList[]> {
  let tree: unknown;
  try {
    tree = await loadParser().parse(sql);
  } catch {
    return [];
  }
  const alone = new Set(nodesWithin(tree, 'ResTarget').flatMap(({ val }) => conditionsOf(val)));
  const listed = nodesWithin(tree, 'A_Expr').filter(
    ({ kind, name }) => (kind === 'AEXPR_IN' || kind === 'AEXPR_OP_ANY') && strings(name).join('') === '=',
  );
  const either = nodesWithin(tree, 'BoolExpr').filter(
    ({ boolop, args }) => boolop === 'OR_EXPR' && (args ?? []).every(isEquality),
  );
  const cases = nodesWithin(tree, 'CaseExpr').filter(({ defresult }) => isNull(defresult));
  return [
    ...listed.map((node) => ({ values: textsIn(node.rexpr), isAlone: alone.has(node) })),
    ...either.map((node) => ({ values: textsIn(node.args), isAlone: alone.has(node) })),
    ...cases.map(({ args }) => ({
      values: textsIn(itemsOf<Tree.CaseWhen>(args, 'CaseWhen').map(({ expr }) => expr)),
      isAlone: false,
    })),
  ].map((list) => ({ ...list, fails: false }));
}

/** The parts of a selected condition that must all hold. */
function conditionsOf(node: Tree.Node | undefined): object[] {
  if (node === undefined) return [];
  if ('A_Expr' in node) return [node.A_Expr];
  if (!('BoolExpr' in node)) return [];
  return node.BoolExpr.boolop === 'AND_EXPR'
    ? (node.BoolExpr.args ?? []).flatMap(conditionsOf)
    : [node.BoolExpr];
}

function isEquality(node: Tree.Node): boolean {
  return 'A_Expr' in node && node.A_Expr.kind === 'AEXPR_OP' && strings(node.A_Expr.name).join('') === '=';
}

/** Reads the lists of a function in SQL or PL/pgSQL, as CREATE FUNCTION writes it. */
export async function labelListsOfBody({
  language,
  definition,
}: {
  readonly language: 'sql' | 'plpgsql';
  readonly definition: string;
}): Promise<LabelList[]> {
  try {
    return language === 'sql' ? await ofSql(definition) : await ofPlpgsql(definition);
  } catch {
    return [];
  }
}

async function ofSql(definition: string): Promise<LabelList[]> {
  const [create] = nodesWithin(await loadParser().parse(definition), 'CreateFunctionStmt');
  const body = itemsOf<Tree.DefElem>(create?.options, 'DefElem').find(({ defname }) => defname === 'as');
  return labelLists(strings(nodesWithin(body, 'List')[0]?.items).join('\n'));
}

async function ofPlpgsql(definition: string): Promise<LabelList[]> {
  const tree: unknown = await loadParser().parsePlPgSQL(definition);
  const queries: string[] = [];
  const cases: { readonly conditions: readonly string[] }[] = [];
  walkTree(tree, (kind, fields) => {
    if (kind === 'PLpgSQL_expr') queries.push(asQuery(fields));
    const { have_else: hasElse, case_when_list: whens } = fields as Record<string, unknown>;
    if (kind === 'PLpgSQL_stmt_case' && hasElse !== true)
      cases.push({
        conditions: itemsOf<{ expr?: { PLpgSQL_expr?: object } }>(
          whens as Tree.Node[],
          'PLpgSQL_case_when',
        ).map(({ expr }) => asQuery(expr?.PLpgSQL_expr ?? {})),
      });
  });
  const lists: LabelList[] = [];
  for (const query of queries) lists.push(...(await labelLists(query)));
  for (const { conditions } of cases) {
    const values = new Set<string>();
    for (const condition of conditions)
      for (const text of textsIn(await loadParser().parse(condition))) values.add(text);
    // A CASE statement that has no ELSE, and no WHEN for the value, fails with SQLSTATE 20000.
    lists.push({ values, fails: true, isAlone: false });
  }
  return lists;
}

/** PL/pgSQL's RawParseMode of a whole statement. */
const STATEMENT = 0;

function asQuery(fields: object): string {
  const { query = '', parseMode = STATEMENT } = fields as { query?: string; parseMode?: number };
  return parseMode === STATEMENT ? query : `SELECT ${query}`;
}

/** pg_get_viewdef() writes `ELSE NULL::text` where there was no ELSE. */
function isNull(node: Tree.Node | undefined): boolean {
  if (node === undefined) return true;
  if ('TypeCast' in node) return isNull(node.TypeCast.arg);
  return 'A_Const' in node && node.A_Const.isnull === true;
}

function textsIn(part: unknown): Set<string> {
  return new Set(
    nodesWithin({ part }, 'A_Const').flatMap(({ sval }) => (sval?.sval === undefined ? [] : [sval.sval])),
  );
}
