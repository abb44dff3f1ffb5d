import type { StatementSection, TransactionSection } from '../model/report.ts';
import type { StatementFacts } from '../model/statement-actions.ts';

/** A savepoint that exists, and the index of the statement that set it. */
interface OpenSavepoint {
  readonly name: string;
  readonly index: number;
}

/** The beginning and the end of a transaction cannot be rolled back. */
const FRAME = new Set(['BEGIN', 'START TRANSACTION', 'COMMIT', 'ROLLBACK', 'PREPARE TRANSACTION']);

/** Marks the statements that succeeded and were rolled back all the same: with their transaction, or to a savepoint. */
export function withRolledBack(
  statements: readonly StatementSection[],
  transactions: readonly TransactionSection[],
  parsed: ReadonlyMap<number, StatementFacts>,
): StatementSection[] {
  const undone = undoneBySavepoints(statements, parsed);
  for (const { transaction, outcome } of transactions)
    if (outcome === 'rolled back') undone.set(transaction, [{ after: -1, before: Number.POSITIVE_INFINITY }]);
  return statements.map((statement) => {
    const { index, transaction, tag, error } = statement;
    const isWork = error === null && !FRAME.has(tag ?? '') && parsed.get(index)?.savepoint === undefined;
    const isUndone = undone.get(transaction)?.some(({ after, before }) => after < index && index < before);
    return isWork && isUndone ? { ...statement, rolledBack: true } : statement;
  });
}

interface Span {
  readonly after: number;
  readonly before: number;
}

/** The statements between a SAVEPOINT and a ROLLBACK TO it, by transaction. */
function undoneBySavepoints(
  statements: readonly StatementSection[],
  parsed: ReadonlyMap<number, StatementFacts>,
): Map<number, Span[]> {
  const open = new Map<number, readonly OpenSavepoint[]>();
  const undone = new Map<number, Span[]>();
  for (const { index, transaction, error } of statements) {
    const savepoint = parsed.get(index)?.savepoint;
    if (savepoint === undefined || error !== null) continue;
    const { does, name } = savepoint;
    const savepoints = open.get(transaction) ?? [];
    const at = savepoints.findLastIndex((each) => each.name === name);
    if (does === 'set') open.set(transaction, [...savepoints, { name, index }]);
    else if (does === 'release') open.set(transaction, savepoints.slice(0, Math.max(0, at)));
    else {
      open.set(transaction, savepoints.slice(0, at + 1));
      const span = { after: savepoints[at]?.index ?? -1, before: index };
      undone.set(transaction, [...(undone.get(transaction) ?? []), span]);
    }
  }
  return undone;
}
