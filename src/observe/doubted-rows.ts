import { formatCount } from '../format.ts';
import type { Caveat, DataSection, StatementSection, TransactionSection } from '../model/report.ts';
import type { Action, StatementFacts } from '../model/statement-actions.ts';
import { displayName, lastPart } from '../postgres/sql/quote.ts';

/** A difference up to this share of the statements' rows is not reported. */
const TOLERATED_SHARE = 0.1;
const WRITES: ReadonlySet<Action['does']> = new Set(['insert', 'update', 'delete', 'merge']);

interface Seen {
  readonly statements: readonly StatementSection[];
  readonly transactions: readonly TransactionSection[];
  readonly parsed: ReadonlyMap<number, StatementFacts>;
}

/**
 * Compares the rows that statements report with those that the server counted as written and committed in the same table. It may count more,
 * by triggers and cascades, and never less. Tables without such counters (views, foreign tables, dropped tables) are left out.
 */
export function doubtedRows({ statements, transactions, parsed }: Seen, data: DataSection | null): Caveat[] {
  if (!data || statements.some(leavesCountersBehind)) return [];
  const committed = new Set(
    transactions.flatMap(({ transaction, outcome }) => (outcome === 'committed' ? [transaction] : [])),
  );
  const reported = new Map<string, number>();
  for (const { index, transaction, rows, error, rolledBack } of statements) {
    const { actions = [] } = parsed.get(index) ?? {};
    const [write, ...others] = actions.filter(({ does }) => WRITES.has(does));
    const isKept = committed.has(transaction) && !error && !rolledBack;
    if (rows === null || !isKept || others.length > 0 || !write) continue;
    const relation = 'table' in write && write.table ? writtenRelation(write.table, data) : undefined;
    if (relation !== undefined) reported.set(relation, (reported.get(relation) ?? 0) + rows);
  }
  return data.written.flatMap(({ relation, inserted, updated, deleted }): Caveat[] => {
    const rows = reported.get(relation) ?? 0;
    const counted = inserted + updated + deleted;
    if (rows - counted <= rows * TOLERATED_SHARE) return [];
    const reason = `the statements report ${formatCount(rows)} rows of ${relation}, but the server counted ${formatCount(counted)} that were written there`;
    return [{ path: 'statements[].rows', kind: 'estimate', reason }];
  });
}

/** TRUNCATE sets the counters of its transaction back, and rows of a temporary table are not counted under the name of another one. */
function leavesCountersBehind({ tag, sql }: StatementSection): boolean {
  return tag === 'TRUNCATE TABLE' || /\btemp(?:orary)?\b|\bpg_temp\b/i.test(sql);
}

/** The only relation with written rows that the name can mean. */
function writtenRelation(
  { schema, name }: { readonly schema: string | null; readonly name: string },
  { written }: DataSection,
): string | undefined {
  const named = written.filter(({ relation }) =>
    schema === null ? lastPart(relation) === displayName(name) : relation === displayName(schema, name),
  );
  return named.length === 1 ? named[0]?.relation : undefined;
}
