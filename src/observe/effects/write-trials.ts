import type * as Tree from 'libpg-query';
import type { EffectFacts, NeverTrue, SeveralMatches } from '../../model/effect-facts.ts';
import type { Caveat, StatementSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { fieldsIf } from '../../postgres/sql/classify-statement.ts';
import { parseText } from '../../postgres/sql/parse.ts';
import { displayName, identifier } from '../../postgres/sql/quote.ts';
import { isWord, slice, type Token, tokensOf } from '../../postgres/sql/tokens.ts';
import { itemsOf, type Node, strings } from '../../postgres/sql/tree.ts';
import { partsOfWrite, type SentStatements, settingsOf, type Trial, triedRow } from './filtered-writes.ts';
import { swallowedBy } from './swallowed-failures.ts';

/** Time for all trials of a run. */
const BUDGET_MS = 5_000;
/** Longer texts were generated, and take long to parse. */
const LONGEST_TEXT = 20_000;

/** Facts that only a trial of the command's writes shows. */
export type WriteTrials = Pick<EffectFacts, 'filteredWrites' | 'severalMatches' | 'neverTrue' | 'swallowed'>;

/**
 * Tries on the clone if an UPDATE had to choose among several rows, if a condition can be true at all, and if a DO block passes over an
 * error. The trials run in transactions that are rolled back.
 * @param caveats gets the statements that no time was left for.
 */
export async function readWriteTrials(
  session: Session,
  sent: SentStatements,
  { mayRun, since }: Pick<Trial, 'mayRun' | 'since'>,
  caveats: Caveat[],
): Promise<Omit<WriteTrials, 'filteredWrites'>> {
  const deadline = performance.now() + BUDGET_MS;
  const trial = { session, sent, mayRun, since, leftMs: () => deadline - performance.now() };
  const severalMatches: SeveralMatches[] = [];
  const neverTrue: NeverTrue[] = [];
  const swallowed: EffectFacts['swallowed'][number][] = [];
  const untried: number[] = [];
  for (const statement of sent.statements) {
    if (statement.error !== null || statement.sql.length > LONGEST_TEXT || !mayTell(sent, statement))
      continue;
    if (trial.leftMs() <= 0) untried.push(statement.index);
    else if (statement.tag === 'DO') swallowed.push(...(await swallowedBy(trial, statement)));
    else if (statement.rows === 0) neverTrue.push(...(await neverTrueIn(trial, statement)));
    else severalMatches.push(...(await severalMatchesOf(trial, statement)));
    if (trial.leftMs() <= 0 && !untried.includes(statement.index)) untried.push(statement.index);
  }
  if (untried.length > 0)
    caveats.push({
      path: 'hazards',
      kind: 'unmeasured',
      reason: `the time for trials of writes was over before ${untried.length === 1 ? `statement ${untried[0]}` : `${untried.length} statements, ${untried[0]} the first,`} had been tried: several rows for one, conditions that are never true and errors that a DO block passes over are not reported there`,
    });
  return { severalMatches, neverTrue, swallowed };
}

/** Tells if a trial may show anything of the command's statements. */
export function isWorthATrial(sent: SentStatements): boolean {
  return sent.statements.some(
    (statement) =>
      statement.error === null &&
      (mayTell(sent, statement) ||
        sent.parsed
          .get(statement.index)
          ?.actions.some(({ does }) => does === 'update' || does === 'delete') === true),
  );
}

function mayTell({ parsed }: SentStatements, { index, tag, rows, sql }: StatementSection): boolean {
  if (tag === 'DO') return /\bexception\b/i.test(sql);
  const actions = parsed.get(index)?.actions ?? [];
  if (rows === 0) return /\bnull\b|\bnot\s+in\b/i.test(sql) && actions.some(({ does }) => WRITES.has(does));
  return actions.some(({ does }) => does === 'update') && /\bfrom\b/i.test(sql);
}

const WRITES = new Set(['insert', 'update', 'delete']);

/** Counts the rows that the UPDATE changed, and that several rows of its FROM match with different values. */
async function severalMatchesOf(trial: Trial, statement: StatementSection): Promise<SeveralMatches[]> {
  const { session, sent, mayRun, since, leftMs } = trial;
  const parts = await partsOfWrite(statement.sql);
  if (!parts || parts.others === '') return [];
  const [only] = (await parseText(Buffer.from(statement.sql))) ?? [];
  const update = only && fieldsIf(only.node, 'UpdateStmt');
  const values = await valuesOf(parts.set);
  if (!update?.relation || values.length === 0) return [];
  const { relation } = update;
  const alias = identifier(relation.alias?.aliasname ?? relation.relname ?? '');
  const set = itemsOf<Tree.ResTarget>(update.targetList, 'ResTarget').map(({ name = '' }) => name);
  const condition = await withoutNames(parts.condition, set);
  const sql = `SELECT pg_catalog.count(*)::pg_catalog.float8 AS rows, pg_catalog.min(m.relation) AS relation
    FROM (${parts.within}SELECT ${alias}.tableoid AS relation
      FROM ${parts.target}, ${parts.others}
     WHERE pg_catalog.age(${alias}.xmin) <= pg_catalog.age('${since}'::pg_catalog.xid)${condition && ` AND (${condition})`}
     GROUP BY ${alias}.tableoid, ${alias}.ctid
    HAVING pg_catalog.count(DISTINCT ROW(${values.join(', ')})::pg_catalog.text) > 1) AS m`;
  const settings = await settingsOf(sent, statement, mayRun);
  if (!settings || !(await mayRun(sql))) return [];
  const row = await triedRow<{ rows: number; relation: string }>(session, [...settings, sql], leftMs());
  if (!row || row.rows === 0) return [];
  const [named] = await session.query<{ schema: string; name: string }>(NAME_OF, [row.relation]);
  if (!named) return [];
  return [{ statement: statement.index, relation: displayName(named.schema, named.name), rows: row.rows }];
}

// Of a partition, the table that it is a part of.
const NAME_OF = `
select n.nspname as schema, c.relname as name
from pg_catalog.pg_class p
join pg_catalog.pg_class c on c.oid = case when p.relispartition then pg_catalog.pg_partition_root(p.oid) else p.oid end
join pg_catalog.pg_namespace n on n.oid = c.relnamespace where p.oid = $1`;

/** The expressions of SET: of `a = 1, (b, c) = (2, 3)` 1 and (2, 3). */
async function valuesOf(set: string): Promise<string[]> {
  const parts = split(set, await tokensOf(set), (token) => token.depth === 0 && token.text === ',');
  return parts.flatMap(({ tokens }) => {
    const at = tokens.findIndex(({ text, depth }) => depth === 0 && text === '=');
    const [first, last] = [tokens[at + 1], tokens.at(-1)];
    return at < 0 || !first || !last ? [] : [slice(set, first.from, last.to)];
  });
}

/**
 * The conditions that are joined by AND, without those that name a column that the UPDATE has set since. If nothing is left that compares
 * two values, all of it is kept.
 */
async function withoutNames(condition: string, names: readonly string[]): Promise<string> {
  const conditions = await conjunctsOf(condition);
  const kept = conditions.filter(
    ({ tokens }) =>
      !tokens.some(
        ({ text }) => names.includes(text.replaceAll('"', '')) || names.includes(text.toLowerCase()),
      ),
  );
  const isJoined = kept.some(({ tokens }) => tokens.some(({ text }) => text === '='));
  return isJoined ? kept.map(({ text }) => text).join(' AND ') : condition;
}

interface Part {
  readonly text: string;
  readonly tokens: readonly Token[];
}

/** The parts of a condition between AND, outside of parentheses; all of it if it has an OR or a BETWEEN there. */
async function conjunctsOf(condition: string): Promise<Part[]> {
  if (condition === '') return [];
  const tokens = await tokensOf(condition);
  const isWhole = tokens.some(
    (token) => isWord(token, 'OR') || isWord(token, 'BETWEEN') || isWord(token, 'CASE'),
  );
  return isWhole ? [{ text: condition, tokens }] : split(condition, tokens, (token) => isWord(token, 'AND'));
}

function split(sql: string, tokens: readonly Token[], isBetween: (token: Token) => boolean): Part[] {
  const parts: Token[][] = [[]];
  for (const token of tokens)
    if (isBetween(token)) parts.push([]);
    else parts.at(-1)?.push(token);
  return parts.flatMap((own) => {
    const [first, last] = [own[0], own.at(-1)];
    return first && last ? [{ text: slice(sql, first.from, last.to), tokens: own }] : [];
  });
}

/** Finds out why the condition of a statement that changed no row is never true, if that is because of a NULL. */
async function neverTrueIn(trial: Trial, statement: StatementSection): Promise<NeverTrue[]> {
  const { session, sent, mayRun, leftMs } = trial;
  const [only] = (await parseText(Buffer.from(statement.sql))) ?? [];
  if (!only) return [];
  if (comparesWithNull(conditionOf(only.node))) return [{ statement: statement.index, nulls: null }];
  const settings = await settingsOf(sent, statement, mayRun);
  for (const query of settings ? await queriesOfNotIn(statement.sql) : []) {
    if (!(await mayRun(query))) continue;
    const row = await triedRow<{ nulls: number }>(session, [...(settings ?? []), query], leftMs());
    if (row && row.nulls > 0) return [{ statement: statement.index, nulls: row.nulls }];
  }
  return [];
}

function conditionOf(node: Node): Tree.Node | undefined {
  const insert = fieldsIf(node, 'InsertStmt')?.selectStmt;
  const select = insert && 'SelectStmt' in insert ? insert.SelectStmt : undefined;
  return (fieldsIf(node, 'UpdateStmt') ?? fieldsIf(node, 'DeleteStmt') ?? select)?.whereClause;
}

/** `a = NULL`, `a <> NULL`, `a NOT IN (1, NULL)`, alone or joined by AND. */
function comparesWithNull(condition: Tree.Node | undefined): boolean {
  if (!condition) return false;
  if ('BoolExpr' in condition)
    return condition.BoolExpr.boolop === 'AND_EXPR' && (condition.BoolExpr.args ?? []).some(comparesWithNull);
  if (!('A_Expr' in condition)) return false;
  const { kind, lexpr, rexpr, name } = condition.A_Expr;
  if (kind === 'AEXPR_OP') return COMPARES.has(strings(name)[0] ?? '') && (isNull(lexpr) || isNull(rexpr));
  const list = rexpr && 'List' in rexpr ? (rexpr.List.items ?? []) : [];
  return kind === 'AEXPR_IN' && strings(name)[0] === '<>' && list.some(isNull);
}

const COMPARES = new Set(['=', '<>', '!=', '<', '>', '<=', '>=']);

function isNull(node: Tree.Node | undefined): boolean {
  return node !== undefined && 'A_Const' in node && node.A_Const.isnull === true;
}

const ENDS_CONDITION = ['GROUP', 'ORDER', 'LIMIT', 'UNION', 'RETURNING', 'ON', 'WINDOW', 'HAVING', ';'];

/** Writes, for each NOT IN with a subquery that the condition demands, the query that counts its NULLs. It fails if it refers to other tables. */
async function queriesOfNotIn(sql: string): Promise<string[]> {
  const tokens = await tokensOf(sql);
  const where = tokens.findIndex((token) => isWord(token, 'WHERE'));
  if (where < 0 || tokens.some((token) => isWord(token, 'WITH') || /^\$\d/.test(token.text))) return [];
  const rest = tokens.slice(where + 1);
  const end = rest.findIndex((token) => ENDS_CONDITION.some((word) => isWord(token, word)));
  const [first, last] = [rest[0], rest[(end < 0 ? rest.length : end) - 1]];
  const condition = first && last ? slice(sql, first.from, last.to) : '';
  return (await conjunctsOf(condition)).flatMap(({ tokens: own }) => {
    const at = own.findIndex(
      (token, place) =>
        isWord(token, 'NOT') && isWord(own[place + 1] ?? token, 'IN') && own[place + 2]?.text === '(',
    );
    const [open, close] = [own[at + 2], own.at(-1)];
    const isQuery =
      at > 0 &&
      !own.some((token) => isWord(token, 'OR')) &&
      /^(?:select|values|table)$/i.test(own[at + 3]?.text ?? '');
    if (!isQuery || !open || !close || close.text !== ')') return [];
    const query = slice(condition, open.to, close.from);
    return [
      `SELECT pg_catalog.count(*)::pg_catalog.float8 AS nulls FROM (${query}) AS s (x) WHERE s.x IS NULL`,
    ];
  });
}
