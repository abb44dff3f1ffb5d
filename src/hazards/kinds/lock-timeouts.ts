import { formatCount, formatDuration } from '../../format.ts';
import type { StatementSection } from '../../model/report.ts';
import type { Action } from '../../model/statement-actions.ts';
import { conflictsOf, lockModeOf } from '../../postgres/lock-modes.ts';
import { locksEvidence } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import type { StatementLock } from '../held-locks.ts';
import { milder, type Severity, weighLock, worst } from '../severity.ts';
import { LONG_TRANSACTION_MS } from '../thresholds.ts';

/** A lock_timeout below this is over before the transactions of a busy minute are. */
const SHORT_MS = 1_000;

/** Concurrent forms that leave nothing behind when a lock_timeout ends them. */
const LEAVE_NOTHING: ReadonlySet<Action['does']> = new Set(['refresh', 'repack']);

/** Waits for locks: without a limit, and with one that does not suit the transactions of the target. */
export const LOCK_TIMEOUTS: readonly HazardRecord[] = [
  {
    code: 'NO_LOCK_TIMEOUT',
    title: 'statements wait for strong locks without a timeout',
    condition: `A session without lock_timeout takes a lock that blocks reads or writes. At least a warning if a transaction that is in its way was ${formatDuration(LONG_TRANSACTION_MS)} old or older when the target was sampled, or was recorded with such a time.`,
    effect:
      'The statement waits for a long-running transaction, and everybody who comes later queues behind it: a short ALTER TABLE becomes an outage.',
    safer: 'SET lock_timeout to a few seconds, and retry after a timeout (SQLSTATE 55P03).',
    find: (context) => sessionsOf(context).flatMap((statements) => withoutTimeout(context, statements)),
  },
  {
    code: 'CONCURRENTLY_WITH_LOCK_TIMEOUT',
    title: 'a lock_timeout may leave an INVALID index',
    condition: `CREATE, DROP or REINDEX INDEX CONCURRENTLY, or DETACH PARTITION CONCURRENTLY, with a lock_timeout in effect whose value is known. A warning if it is shorter than ${formatDuration(SHORT_MS)}, or than the oldest transaction that was seen on the target.`,
    effect:
      'These statements wait for all older transactions, which blocks no session. If a wait takes longer than lock_timeout, the statement fails with SQLSTATE 55P03 and leaves an INVALID index, or a partition that is half detached.',
    safer: 'SET lock_timeout = 0 before the statement: it blocks no reads and writes while it waits.',
    find: (context) =>
      sessionsOf(context).flatMap((statements) => {
        const timeouts = lockTimeouts(context, statements);
        return statements.flatMap((statement) =>
          concurrently(context, statement, timeouts.get(statement.index)),
        );
      }),
  },
];

/** A hazard that only the target's own transactions make. */
export const TOO_SHORT: HazardRecord = {
  code: 'LOCK_TIMEOUT_TOO_SHORT',
  title: 'a lock_timeout is shorter than transactions that are usual on the table',
  condition:
    'A statement takes a lock that blocks reads or writes with a lock_timeout that is shorter than a transaction on the same table, which was seen when the target was sampled, or was recorded in the profile or by --load.',
  effect:
    'The statement is given up with SQLSTATE 55P03 each time it meets such a transaction: the migration fails halfway, or never succeeds.',
  safer:
    'Retry after a pause (apply --retries), run it when no such transaction is due, or make that transaction shorter. A longer lock_timeout blocks others for as long.',
  find: (context) =>
    sessionsOf(context).flatMap((statements) => {
      const timeouts = lockTimeouts(context, statements);
      return statements.flatMap((statement) => tooShort(context, statement, timeouts.get(statement.index)));
    }),
};

function withoutTimeout(context: HazardContext, statements: readonly StatementSection[]): Finding[] {
  const limited = lockTimeouts(context, statements);
  const strong = statements
    .filter(({ index }) => !limited.has(index))
    .map((statement) => ({
      statement,
      locks: context.taken(statement, 'writes', mayGiveUp(context, statement)),
    }))
    .filter(({ locks }) => locks.length > 0);
  const [first] = strong;
  if (!first) return [];
  const locks = strong.flatMap((each) => each.locks);
  const others = strong.length - 1;
  const waits = locks.map((lock) => usualWait(context, lock));
  const longest = waits.reduce((a, b) => (b.ms > a.ms ? b : a));
  const isLong = longest.ms >= LONG_TRANSACTION_MS;
  const bySize = worst(
    locks.map((lock) => milder(weighLock(context, { ...lock, heldMs: lock.heldMs ?? 0 }))),
  );
  return [
    {
      statement: first.statement.index,
      relation: first.locks[0]?.relation ?? null,
      severity: isLong ? worst([bySize, 'warning']) : bySize,
      message: `${first.statement.tag ?? 'a statement'} waits for its lock without a timeout${others > 0 ? `, and so ${others === 1 ? 'does 1 more statement' : `do ${formatCount(others)} more statements`}` : ''}`,
      evidence: `${locksEvidence(context, first.locks)}${isLong ? `; ${longest.words}` : ''}`,
      advice: sqlAdvice(
        'At the start of the session; retry after SQLSTATE 55P03:',
        "SET lock_timeout = '2s'",
      ),
    },
  ];
}

/** Tells if the statement leaves nothing behind when its last wait for a lock is given up. */
function mayGiveUp(context: HazardContext, statement: StatementSection): boolean {
  return context.actions(statement).some(({ does }) => LEAVE_NOTHING.has(does));
}

function tooShort(
  context: HazardContext,
  statement: StatementSection,
  timeoutMs: number | null | undefined,
): Finding[] {
  if (timeoutMs == null) return [];
  return context
    .taken(statement, 'writes')
    .map((lock) => ({ lock, wait: usualWait(context, lock) }))
    .filter(({ wait }) => wait.ms > timeoutMs)
    .slice(0, 1)
    .map(({ lock, wait }) => ({
      statement: statement.index,
      relation: lock.relation,
      severity: 'warning',
      message: `lock_timeout is ${formatDuration(timeoutMs)}, and transactions on ${lock.relation} last longer: the statement is likely to be given up`,
      evidence: `${wait.words}; ${locksEvidence(context, [lock])}`,
      advice: 'Let apply repeat it (--retries), or run it when no such transaction is open.',
    }));
}

function concurrently(
  context: HazardContext,
  statement: StatementSection,
  timeoutMs: number | null | undefined,
): Finding[] {
  const action = context
    .actions(statement)
    .find((each) => 'concurrently' in each && each.concurrently && !LEAVE_NOTHING.has(each.does));
  if (timeoutMs == null || !action) return [];
  const { oldestTransactionMs } = context.facts;
  const isMet = (oldestTransactionMs ?? 0) > timeoutMs;
  const severity: Severity = isMet || timeoutMs < SHORT_MS ? 'warning' : 'notice';
  const named = 'table' in action && action.table ? context.resolve(action.table, statement) : null;
  return [
    {
      statement: statement.index,
      relation: named !== null && context.relation(named) ? named : null,
      severity,
      message: `${statement.tag ?? 'the statement'} CONCURRENTLY is given up after ${formatDuration(timeoutMs)} of waiting for an older transaction, and leaves ${action.does === 'detach partition' ? 'the partition half detached' : 'an INVALID index'}`,
      evidence: `lock_timeout is ${formatDuration(timeoutMs)}${oldestTransactionMs == null ? '' : `; the oldest transaction that was seen on the target had lasted ${formatDuration(oldestTransactionMs)}`}`,
      advice: sqlAdvice('Before the statement, which blocks no session:', 'SET lock_timeout = 0'),
    },
  ];
}

/** The longest of the transactions that are usual on the target and in the way of a lock; 0: none is known. */
export function usualWait(context: HazardContext, { relation, mode }: StatementLock) {
  const name = context.former(relation);
  const conflicting = new Set<string>(conflictsOf(mode));
  const { openTransactions = [], recorded = [] } = context.facts;
  const seenMs = openTransactions
    .filter((each) => each.relation === name && conflicting.has(lockModeOf(each.mode) ?? ''))
    .map(({ ageMs }) => ageMs);
  const recordedMs = recorded
    .filter(({ relations }) => relations.includes(name))
    .map(({ durationMs = 0 }) => durationMs);
  const [seen, usual] = [Math.max(0, ...seenMs), Math.max(0, ...recordedMs)];
  return seen > usual
    ? { ms: seen, words: `a transaction on ${name} had lasted ${formatDuration(seen)} when it was seen` }
    : { ms: usual, words: `transactions on ${name} were recorded that last ${formatDuration(usual)}` };
}

/** The statements of each session, in order. */
export function sessionsOf({ facts }: HazardContext): StatementSection[][] {
  const sessions = new Map<number, StatementSection[]>();
  for (const statement of facts.statements) {
    const own = sessions.get(statement.session);
    if (own) own.push(statement);
    else sessions.set(statement.session, [statement]);
  }
  return [...sessions.values()];
}

const ENDS_TRANSACTION = /^(?:COMMIT|ROLLBACK|PREPARE TRANSACTION)$/;

/** A block or procedure that sets a lock_timeout does so before it locks. */
const RUNS_CODE = /^(?:DO|CALL)$/;

function lockTimeouts(context: HazardContext, statements: readonly StatementSection[]) {
  const { catalogue, sessionsWithLockTimeout } = context.facts;
  const begins = catalogue.lockTimeoutByDefault || sessionsWithLockTimeout.has(statements[0]?.session ?? 0);
  return timeoutsOf(context, statements, 'set lock_timeout', begins ? null : undefined);
}

/**
 * The timeout of those statements of a session that ran with one, by their index; null: its value is not known.
 * @param begins the one that the session began with; undefined: none.
 */
export function timeoutsOf(
  context: HazardContext,
  statements: readonly StatementSection[],
  does: 'set lock_timeout' | 'set statement_timeout',
  begins: number | null | undefined,
): Map<number, number | null> {
  const limited = new Map<number, number | null>();
  // undefined: there is none. The second is that of the transaction, as far as it has its own.
  let session = begins;
  let local: { readonly ms: number | null | undefined } | undefined;
  let transaction: number | undefined;
  for (const statement of statements) {
    if (statement.transaction !== transaction || ENDS_TRANSACTION.test(statement.tag ?? ''))
      local = undefined;
    transaction = statement.transaction;
    const settings = context.actionsIn(statement, does).map(({ action }) => action);
    const own = settings.at(-1);
    const setsWithin = RUNS_CODE.test(statement.tag ?? '') && own?.off === false;
    const current = setsWithin ? (own.ms ?? null) : local ? local.ms : session;
    if (current !== undefined) limited.set(statement.index, current);
    if (statement.error) continue;
    for (const { off, ms = null, local: isLocal } of settings) {
      const value = off ? undefined : ms;
      if (isLocal) local = { ms: value };
      else [session, local] = [value, undefined];
    }
  }
  return limited;
}
