import { isHarmlessFunction } from '../../boundary/harmless-functions.ts';
import { isBookkeeping } from '../../model/migration-tables.ts';
import type { Name } from '../../model/statement-actions.ts';
import type { SeenStatements } from '../../observe/command-watch.ts';
import { parseText } from '../../postgres/sql/parse.ts';
import { calledFunctions, type Node, nameOf, nodesWithin } from '../../postgres/sql/tree.ts';
import type { RehearsedFacts } from './plan-online-swap.ts';

/** Reads facts from the statements of the rehearsal that no catalogue shows. A statement that was not seen, or not understood, counts as both. */
export async function readStatementFacts({
  statements,
  parsed,
}: Pick<SeenStatements, 'statements' | 'parsed'>): Promise<
  Pick<RehearsedFacts, 'derivesRows' | 'convertsByExpression'>
> {
  let derivesRows = false;
  let convertsByExpression = false;
  for (const { index, sql, note } of statements) {
    const facts = parsed.get(index);
    if (!facts || note !== undefined || facts.effect === 'unknown')
      return { derivesRows: true, convertsByExpression: true };
    convertsByExpression ||= facts.actions.some(
      (action) => action.does === 'alter type' && action.conversion === 'expression',
    );
    if (facts.effect === 'reads' || facts.effect === 'rows') derivesRows ||= await readsRows(sql);
  }
  return { derivesRows, convertsByExpression };
}

/**
 * Says whether a statement reads rows of users' tables, those of migration tools apart, or runs code that may. Rows that the command
 * writes could then come from rows that production still changes.
 */
async function readsRows(sql: string): Promise<boolean> {
  const statements = await parseText(Buffer.from(sql));
  return statements?.some(({ node }) => relationsReadBy(node).some(holdsRows) || runsCode(node)) ?? true;
}

/** An INSERT only writes to its own relation, whose node has another kind. */
function relationsReadBy(node: Node): Name[] {
  const changed = (['UpdateStmt', 'DeleteStmt', 'MergeStmt'] as const).flatMap((kind) =>
    nodesWithin(node, kind).map(({ relation }) => nameOf(relation)),
  );
  return [...changed, ...nodesWithin(node, 'RangeVar').map(nameOf)];
}

function holdsRows({ schema, name }: Name): boolean {
  if (schema === 'pg_catalog' || schema === 'information_schema') return false;
  return !isBookkeeping(name) && !name.startsWith('pg_');
}

function runsCode(node: Node): boolean {
  return calledFunctions(node).some(({ name }) => !isHarmlessFunction(name));
}
