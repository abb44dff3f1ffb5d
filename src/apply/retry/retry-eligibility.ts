import type {
  ApplySection,
  DuringSection,
  StatementSection,
  TransactionSection,
} from '../../model/report.ts';
import { type LockFailure, lockFailureOf } from '../../postgres/lock-modes.ts';
import { normalizeSql } from '../../postgres/sql/normalize.ts';
import { OVERDUE } from '../guardrails/apply-gate.ts';
import { unrecordedMigrations } from '../migration-history.ts';
import type { ApplyFacts } from '../outcome.ts';

type Failure = NonNullable<ApplySection['attempts'][number]['failure']>;

/** Facts about the attempts so far. */
export interface RetryEvidence {
  readonly facts: ApplyFacts;
  readonly statements: readonly StatementSection[];
  readonly transactions: readonly TransactionSection[];
  readonly during: DuringSection | null;
}

const CANCELED = '57014';
/** in_failed_sql_transaction: every statement gets it after the one that failed. */
const IN_FAILED_TRANSACTION = '25P02';

const CAUSES = { 'lock-timeout': 'lock', deadlock: 'deadlock', none: undefined } as const;

/**
 * Finds the statement that made an attempt fail: the last one with an error of its own. null if no statement failed.
 * @param earlier number of the last statement before the attempt.
 */
export function failureOf({ statements, during }: RetryEvidence, earlier: number): Failure | null {
  const last = statements.findLast(
    ({ index, error }) => index > earlier && error !== null && error.sqlstate !== IN_FAILED_TRANSACTION,
  );
  if (!last?.error) return null;
  const { sqlstate } = last.error;
  const failure = { statement: last.index, sqlstate };
  const cause =
    CAUSES[lockFailureOf(sqlstate) ?? 'none'] ?? (wasCancelledByUs(last, during) ? 'watchdog' : 'other');
  return { ...failure, cause };
}

function wasCancelledByUs({ sql, error }: StatementSection, during: DuringSection | null): boolean {
  if (error?.sqlstate !== CANCELED) return false;
  if (error.message === OVERDUE) return true;
  // With --redact the list of cancelled statements has normalized texts.
  const texts = [sql, normalizeSql(sql)];
  return (during?.cancelled ?? []).some((each) => each.outcome === 'cancelled' && texts.includes(each.sql));
}

/**
 * Says why the command must not be rerun after a failed attempt; null if it may be. A rerun is safe if every transaction is known
 * to be rolled back, or to be committed together with a row in the migration tool's own history table.
 * @param retryOn lock failures after which it may be rerun.
 */
export async function reasonAgainst(
  evidence: RetryEvidence,
  failure: Failure | null,
  retryOn: readonly LockFailure[],
): Promise<string | null> {
  const { facts, statements, transactions, during } = evidence;
  const { unreadable, moved, stillRunning, aborted, schemaChanged, committed } = facts;
  if (aborted !== null) return 'the run ended';
  if (unreadable !== null || schemaChanged === null) return 'the target could not be read';
  if (moved !== null) return moved;
  if (stillRunning > 0) return 'sessions of the command still work in the target';
  if (transactions.some(({ outcome }) => outcome === 'unknown'))
    return 'it is not known whether one of its transactions was committed';
  if (during?.diverged.some(({ stopped }) => stopped)) return 'it sent a statement that was not rehearsed';
  if (failure === null || failure.cause === 'other') return 'it did not fail because of a lock';
  const kind = lockFailureOf(failure.sqlstate);
  if (kind && !retryOn.includes(kind)) return `retryOn leaves out what it failed of: ${kind}`;
  if (!leavesNothing(failure.statement, evidence))
    return `it continued after the failure of statement ${failure.statement}, or that statement may have left something`;
  if (committed.length === 0)
    return schemaChanged ? 'the schema has changed, although no committed statement was seen' : null;
  const transactionOf = new Map(statements.map(({ index, transaction }) => [index, transaction]));
  const [first] = await unrecordedMigrations(committed, transactionOf);
  return first === undefined
    ? null
    : `statement ${first.statement} was committed, and its transaction wrote to no history table of a migration tool`;
}

/**
 * Says whether the failed statement was part of a larger transaction that was rolled back. A statement on its own was retried
 * already, and may leave something behind, as CREATE INDEX CONCURRENTLY does.
 */
function leavesNothing(number: number, { statements, transactions }: RetryEvidence): boolean {
  const failed = statements.find(({ index }) => index === number);
  const inTransaction = statements.filter((each) => each.transaction === failed?.transaction);
  const transaction = transactions.find((each) => each.transaction === failed?.transaction);
  return transaction?.outcome === 'rolled back' && (failed?.explicit === true || inTransaction.length > 1);
}
