import type {
  ApplySection,
  DuringSection,
  StatementSection,
  TransactionSection,
} from '../../model/report.ts';
import { normalizeSql } from '../../postgres/sql/normalize.ts';
import { OVERDUE } from '../guardrails/apply-gate.ts';
import { unrecordedMigrations } from '../migration-history.ts';
import type { Ended } from '../outcome.ts';

type Failure = NonNullable<ApplySection['attempts'][number]['failure']>;

/** What an attempt sent and left, as it was sent. */
export interface RetryEvidence {
  readonly ended: Ended;
  /** Of all attempts so far. */
  readonly statements: readonly StatementSection[];
  readonly transactions: readonly TransactionSection[];
  readonly during: DuringSection | null;
}

const LOCK_NOT_AVAILABLE = '55P03';
const CANCELED = '57014';
/** What every statement gets in a transaction that has failed. */
const FOLLOWS = '25P02';

/**
 * What an attempt failed of: its last error, but for those that only follow from one. null where no statement failed.
 * @param earlier number of the last statement before the attempt.
 */
export function failureOf({ statements, during }: RetryEvidence, earlier: number): Failure | null {
  const last = statements.findLast(
    ({ index, error }) => index > earlier && error !== null && error.sqlstate !== FOLLOWS,
  );
  if (!last?.error) return null;
  const { sqlstate } = last.error;
  const told = { statement: last.index, sqlstate };
  if (sqlstate === LOCK_NOT_AVAILABLE) return { ...told, cause: 'lock' };
  return { ...told, cause: wasCancelledByUs(last, during) ? 'watchdog' : 'other' };
}

function wasCancelledByUs({ sql, error }: StatementSection, during: DuringSection | null): boolean {
  if (error?.sqlstate !== CANCELED) return false;
  if (error.message === OVERDUE) return true;
  // Where literals are left out, the list of what was cancelled has the statement's shape.
  const names = [sql, normalizeSql(sql)];
  return (during?.cancelled ?? []).some((each) => each.outcome === 'cancelled' && names.includes(each.sql));
}

/**
 * Why the command must not be run again after an attempt that failed; null where it may: everything that was sent is known
 * to be rolled back or, where something was committed, to be noted by the tool itself in the same transaction.
 */
export async function reasonAgainst(
  evidence: RetryEvidence,
  failure: Failure | null,
): Promise<string | null> {
  const { ended, statements, transactions, during } = evidence;
  const { unreadable, moved, stillRunning, aborted, schemaChanged, committed } = ended;
  if (aborted !== null) return 'the run was ended';
  if (unreadable !== null || schemaChanged === null) return 'the target could not be looked at';
  if (moved !== null) return moved;
  if (stillRunning > 0) return "sessions of the command's still work in the target";
  if (transactions.some(({ outcome }) => outcome === 'unknown'))
    return 'it is not known what became of one of its transactions';
  if (during?.diverged.some(({ stopped }) => stopped)) return 'it sent what was not rehearsed';
  if (failure === null || failure.cause === 'other') return 'it did not fail because of a lock';
  if (!leavesNothing(failure.statement, evidence))
    return `it went on after the failure of statement ${failure.statement}, or that may have left something`;
  if (committed.length === 0)
    return schemaChanged ? 'the schema has changed, by something that was not seen' : null;
  const transactionOf = new Map(statements.map(({ index, transaction }) => [index, transaction]));
  const [first] = await unrecordedMigrations(committed, transactionOf);
  return first === undefined
    ? null
    : `statement ${first.statement} was committed, and its transaction wrote to no table in which migration tools note what they ran`;
}

/**
 * In a transaction of more than itself, which was rolled back. Alone it was sent again already, and CREATE INDEX
 * CONCURRENTLY, which cannot be among others, would leave an invalid index.
 */
function leavesNothing(number: number, { statements, transactions }: RetryEvidence): boolean {
  const failed = statements.find(({ index }) => index === number);
  const together = statements.filter(({ transaction }) => transaction === failed?.transaction);
  const ended = transactions.find(({ transaction }) => transaction === failed?.transaction);
  return ended?.outcome === 'rolled back' && (failed?.explicit === true || together.length > 1);
}
