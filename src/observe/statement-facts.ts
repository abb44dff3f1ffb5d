import type { StatementSection } from '../model/report.ts';
import type { ActionOf, StatementFacts } from '../model/statement-actions.ts';
import {
  actionsOf,
  beginsAsDml,
  effectOf,
  releasedLocks,
  savepointOf,
  strongestEffect,
} from '../postgres/sql/classify-statement.ts';
import { LocalNames, type LocalReading } from '../postgres/sql/local-names.ts';
import { normalizeSql } from '../postgres/sql/normalize.ts';
import { parseText } from '../postgres/sql/parse.ts';
import { readSaferTexts } from '../postgres/sql/safer-texts.ts';
import type { Node } from '../postgres/sql/tree.ts';
import { variationsIn } from './moment-values.ts';

/** Above this a text is DML that somebody generated, and the parser would take longer than it is worth. */
const LONGEST_TEXT = 200_000;

/**
 * The actions that each statement asks for, by its index. Needs the texts as they were sent, before literals are taken out
 * of them. Statements of one shape, such as those of a loop, are parsed once.
 */
export async function statementFacts(
  statements: readonly StatementSection[],
): Promise<Map<number, StatementFacts>> {
  const facts = new Map<number, StatementFacts>();
  const known = new Map<string, StatementFacts | undefined>();
  const names = new LocalNames();
  for (const { index, session, sql, startedAt } of statements) {
    if (sql.length > LONGEST_TEXT) continue;
    // The literals of DML say nothing of what it asks for.
    const key = beginsAsDml(sql) ? normalizeSql(sql) : sql;
    if (!known.has(key)) known.set(key, await parsed(sql, Date.parse(startedAt)));
    const found = known.get(key);
    if (!found) continue;
    const local = names.mayConcern(session, sql) ? names.read(session, sql, await nodeOf(sql)) : null;
    facts.set(index, local ? withLocal(found, local) : found);
  }
  return facts;
}

async function nodeOf(sql: string): Promise<Node | null> {
  return (await parseText(Buffer.from(sql)))?.[0]?.node ?? null;
}

/** An apply compares a statement without its local names, so that they may vary. */
function withLocal(facts: StatementFacts, { own, names }: LocalReading): StatementFacts {
  const varies = ({ value }: ActionOf<'vary'>) => !own && !names.some((name) => name.includes(value));
  return {
    ...facts,
    actions: facts.actions.filter((action) => action.does !== 'vary' || varies(action)),
    local: own,
  };
}

async function parsed(sql: string, at: number): Promise<StatementFacts | undefined> {
  const statements = await parseText(Buffer.from(sql));
  if (!statements) return undefined;
  const [only] = statements;
  return {
    actions: statements.flatMap(({ node }) => [...actionsOf(node), ...variationsIn(sql, node, at)]),
    saferTexts: only && statements.length === 1 ? await readSaferTexts(sql, only.node) : {},
    releases: statements.flatMap(({ node }) => releasedLocks(node)),
    effect: strongestEffect(statements.map(({ node }) => effectOf(node))),
    savepoint: only && savepointOf(only.node),
  };
}
