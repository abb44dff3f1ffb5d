import { formatBytes, formatCount, formatDuration, listed } from '../format.ts';
import type { RecordedTransaction } from '../model/hazard-facts.ts';
import type { ForecastSection, Hazard, StatementSection } from '../model/report.ts';
import { changedRows } from './changed-rows.ts';
import { locksEvidence, relationEvidence, rowCount } from './evidence.ts';
import type { HazardContext } from './hazard-context.ts';
import { type Finding, type HazardRecord, type HazardTexts, sqlAdvice } from './hazard-definition.ts';
import type { StatementLock } from './held-locks.ts';
import { TOO_SHORT } from './kinds/lock-timeouts.ts';
import { BUSY_PER_SECOND, ERROR, WARNING } from './thresholds.ts';

/** Shares of the lock table, of what the server has room for. */
const FILLED = { warning: 0.5, error: 0.9 } as const;

/** Time for which a transaction of the application may hold one table before it wants the other. */
const APPLICATION_MS = 100;

/** Statements of the application that come to each of the tables while the migration can deadlock with them. */
const MEETINGS = { warning: 1, error: 10 } as const;

/** Dangers that only the target's own work makes: without traffic that was seen there, none of them is found. */
export const TRAFFIC_HAZARDS: readonly HazardRecord[] = [
  TOO_SHORT,
  {
    code: 'ROW_CONFLICTS',
    title: 'running code waits for rows that the migration has changed',
    condition: `A transaction keeps rows locked that it updated or deleted, and at the target's own rate of UPDATEs and DELETEs ${WARNING.waiting} or more of them would come to such a row during that time; an error from ${ERROR.waiting} on.`,
    effect:
      'Each of them waits until the migration commits, with a connection and with the rows that it has locked itself; under REPEATABLE READ it fails then with SQLSTATE 40001.',
    safer:
      'Change batches of some thousands of rows, each in a transaction of its own (https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-ROWS).',
    find: (context) => [...context.transactions()].flatMap((statements) => rowConflicts(context, statements)),
  },
  {
    code: 'DEADLOCK_RISK',
    title: 'one transaction locks several tables that are in use',
    condition: `A transaction takes a lock that blocks writes on one table and, in a later statement, on another, and the application is likely to use both in that time: what it does a second with the less used of the two × (the time for which the first lock is held + ${APPLICATION_MS / 1000} s, as long as a transaction of its own may take) is ${MEETINGS.warning} or more; an error from ${MEETINGS.error} on. If the application's transactions were recorded (--load, or a profile), they decide: there is none if all that lock two of the tables do so in the order of the migration, and at most a warning if none was seen to lock two of them.`,
    effect:
      'A transaction of the application that uses the two in the other order waits for the first, while the migration waits for the second: after deadlock_timeout the server cancels one of them with SQLSTATE 40P01, and until then everybody queues behind both.',
    safer:
      'Use one transaction for each table, and a lock_timeout below deadlock_timeout (https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-DEADLOCKS).',
    find: (context) => [...context.transactions()].flatMap((statements) => deadlockRisk(context, statements)),
  },
  {
    code: 'LOCK_TABLE_FULL',
    title: 'one transaction takes a large part of the lock table',
    condition: `A transaction locks more relations than ${FILLED.warning * 100} % of what the target's lock table holds (max_locks_per_transaction × (max_connections + max_prepared_transactions + the server's own processes)), with the locks that others held there; an error from ${FILLED.error * 100} % on.`,
    effect:
      'When the table is full, any session of the whole server that needs a lock fails with "out of shared memory" (SQLSTATE 53200), not only the migration.',
    safer:
      'Change partitions and tables in several transactions, or raise max_locks_per_transaction first, which takes a restart (https://www.postgresql.org/docs/current/runtime-config-locks.html).',
    find: (context) => {
      const { lockTable } = context.facts;
      if (!lockTable) return [];
      return [...context.transactions()].flatMap((statements) => fullLockTable(statements, lockTable));
    },
  },
];

function rowConflicts(context: HazardContext, statements: readonly StatementSection[]): Finding[] {
  const changed = changedRows(context, statements, false);
  return [...new Set(changed.map(({ relation }) => relation))].flatMap((relation): Finding[] => {
    const own = changed.filter((each) => each.relation === relation);
    const [first] = own;
    const table = context.relation(relation);
    const traffic = context.traffic(relation);
    const lock = first && context.held(first.statement, relation);
    if (!first || !table?.rows || !traffic || !lock?.heldMs) return [];
    const rows = own.reduce((sum, each) => sum + each.rows, 0);
    const share = Math.min(1, rows / table.rows);
    const perSecond = Math.max(0, traffic.writesPerSecond - (traffic.insertsPerSecond ?? 0));
    const waiting = (perSecond * share * lock.heldMs) / 1000;
    if (waiting < WARNING.waiting) return [];
    return [
      {
        statement: first.statement.index,
        relation,
        severity: waiting >= ERROR.waiting ? 'error' : 'warning',
        message: `about ${formatCount(Math.round(waiting))} UPDATEs and DELETEs of running code would wait for rows of ${relation} that the migration changes`,
        evidence: `${rowCount(
          rows,
          own.every(({ counted }) => counted),
        )} (${Math.round(share * 100)} %) locked for ${formatDuration(lock.heldMs)}; ${relationEvidence(context, relation)}`,
        advice: sqlAdvice(
          'Repeat a batch, committing after each, until it changes nothing:',
          `${first.verb === 'delete' ? `DELETE FROM ${relation}` : `UPDATE ${relation} SET …`} WHERE ctid IN (SELECT ctid FROM ${relation} WHERE … LIMIT 5000)`,
        ),
      },
    ];
  });
}

function deadlockRisk(context: HazardContext, statements: readonly StatementSection[]): Finding[] {
  const seen = new Set<string>();
  const takers = statements
    .map((statement) => ({
      statement,
      locks: context
        .taken(statement, 'writes')
        .filter(
          (lock) =>
            rateOf(context, lock) >= BUSY_PER_SECOND && !seen.has(lock.relation) && seen.add(lock.relation),
        ),
    }))
    .filter(({ locks }) => locks.length > 0);
  const last = takers.at(-1);
  if (!last || takers.length < 2) return [];
  const locks = takers.flatMap((taker) => taker.locks);
  const meetings = meetingsIn(context, locks);
  const order = recordedOrder(
    context,
    takers.map((taker) => taker.locks),
  );
  if (meetings < MEETINGS.warning || order === 'same') return [];
  return [
    {
      statement: last.statement.index,
      relation: last.locks[0]?.relation ?? null,
      severity: meetings >= MEETINGS.error && order !== 'none' ? 'error' : 'warning',
      message: `one transaction locks ${listed(
        locks.map(({ relation }) => relation),
        { separator: ', then ' },
      )}, which are all in use: it may deadlock with the application`,
      evidence: [
        locksEvidence(context, locks),
        ...locks.map(({ relation }) => relationEvidence(context, relation)),
        ...(order === null ? [] : [ORDERS[order]]),
      ].join('; '),
      advice: sqlAdvice(
        'Change each table in a transaction of its own; if that is not possible, give up early and retry:',
        "SET lock_timeout = '500ms'",
      ),
    },
  ];
}

/** The evidence's words for the order in which the application was seen to lock the tables. */
const ORDERS = {
  opposite: 'transactions of the application were seen to lock them in the opposite order',
  unknown: 'transactions of the application lock them together, in an order that was not seen',
  none: 'no transaction of the application was seen to lock two of them',
} as const;

/** The worst order of all pairs that the migration locks one after the other; null if no traffic was recorded. */
function recordedOrder(
  context: HazardContext,
  takers: readonly (readonly StatementLock[])[],
): keyof typeof ORDERS | 'same' | null {
  const { recorded } = context.facts;
  if (!recorded) return null;
  const orders = takers.flatMap((earlier, at) =>
    takers
      .slice(at + 1)
      .flatMap((later) =>
        earlier.flatMap(({ relation: first }) =>
          later.flatMap(({ relation: second }) =>
            ordersSeen(recorded, context.former(first), context.former(second)),
          ),
        ),
      ),
  );
  return (['opposite', 'unknown', 'same'] as const).find((each) => orders.includes(each)) ?? 'none';
}

/** Returns the order in which each transaction of the application locks two relations; `unknown` if that was not seen. */
function ordersSeen(recorded: readonly RecordedTransaction[], first: string, second: string) {
  return recorded.flatMap(({ relations, unordered }) => {
    const [at, otherAt] = [relations.indexOf(first), relations.indexOf(second)];
    if (at < 0 || otherAt < 0) return [];
    if (unordered.some((pair) => pair.includes(first) && pair.includes(second))) return ['unknown' as const];
    return [at < otherAt ? ('same' as const) : ('opposite' as const)];
  });
}

/** Estimates how often two tables are used together at most: the less used one of the two that are used most decides. */
function meetingsIn(context: HazardContext, locks: readonly StatementLock[]): number {
  const [, second = 0] = locks.map((lock) => rateOf(context, lock)).sort((a, b) => b - a);
  const heldMs = Math.max(...locks.map((lock) => lock.heldMs ?? 0));
  return (second * (heldMs + APPLICATION_MS)) / 1000;
}

/** Statements per second that the lock would keep waiting. */
function rateOf(context: HazardContext, { relation, mode }: StatementLock): number {
  const { readsPerSecond = 0, writesPerSecond = 0 } = context.traffic(relation) ?? {};
  return writesPerSecond + (mode === 'ACCESS EXCLUSIVE' ? readsPerSecond : 0);
}

function fullLockTable(
  statements: readonly StatementSection[],
  { capacity, held }: { readonly capacity: number; readonly held: number | null },
): Finding[] {
  const locked = new Set(statements.flatMap(({ locks }) => (locks ?? []).map(({ relation }) => relation)));
  const share = (locked.size + (held ?? 0)) / capacity;
  const most = statements.reduce<StatementSection | null>(
    (found, each) => ((each.locks?.length ?? 0) > (found?.locks?.length ?? 0) ? each : found),
    null,
  );
  if (most === null || share < FILLED.warning || locked.size < capacity / 10) return [];
  return [
    {
      statement: most.index,
      relation: null,
      severity: share >= FILLED.error ? 'error' : 'warning',
      message: `one transaction locks ${formatCount(locked.size)} relations, and the target's lock table holds ${formatCount(capacity)}`,
      evidence:
        held === null
          ? `${Math.round(share * 100)} %, without the locks that others hold, which a profile does not have`
          : `${formatCount(held)} locks were held on the target, ${Math.round(share * 100)} % in all`,
      advice: 'Split it into several transactions, or raise max_locks_per_transaction on the target first.',
    },
  ];
}

/** Share of the free disk space that may be needed without a warning: other sessions write there as well. */
const NEARLY_ALL = 0.8;

const DISK: HazardTexts = {
  code: 'DISK_FILLS_UP',
  title: "the target's disk fills up",
  condition:
    "At the peak more disk space is needed than is free on the target's file system (an error), or more than 80 % of it (a warning).",
  effect:
    'Statements of all sessions fail with "No space left on device"; if no WAL can be written, the whole server stops.',
  safer:
    'First free or add space; or change the rows in batches with a checkpoint and a VACUUM in between, instead of rewriting tables.',
};

/** Hazards of the forecast. */
export const DISK_HAZARDS: readonly HazardTexts[] = [DISK];

export function findDiskHazards(forecast: Pick<ForecastSection, 'disk'> | null): Hazard[] {
  const { neededBytes = null, freeBytes = null, compressRatio } = forecast?.disk ?? {};
  if (neededBytes === null || freeBytes === null || neededBytes <= freeBytes * NEARLY_ALL) return [];
  const isError = neededBytes > freeBytes;
  const compression =
    compressRatio === undefined ? '' : ` and compressed ${compressRatio}-fold, as the data is now`;
  return [
    {
      code: DISK.code,
      severity: isError ? 'error' : 'warning',
      statement: null,
      relation: null,
      message: isError
        ? "The target's disk does not have the space that is needed."
        : "The target's disk would be nearly full.",
      evidence: `up to ${formatBytes(neededBytes)} needed at the peak, including WAL${compression}; ${formatBytes(freeBytes)} free on the target's file system`,
      advice: DISK.safer,
      allowed: false,
    },
  ];
}
