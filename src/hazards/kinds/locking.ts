import { longestMs } from '../../model/repeated.ts';
import type { StatementSection } from '../../model/report.ts';
import type { Action } from '../../model/statement-actions.ts';
import { blocks, type LockMode } from '../../postgres/lock-modes.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { locksEvidence } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { blocking, type HazardRecord, lockFinding, sqlAdvice } from '../hazard-definition.ts';
import type { StatementLock } from '../held-locks.ts';
import { weighLock, worst } from '../severity.ts';
import { LONG_TRANSACTION_MS, REPORTED_FROM_MS, WARNING } from '../thresholds.ts';
import { BUILDS } from './builds.ts';
import { FOREIGN_KEYS } from './foreign-keys.ts';
import { usualWait } from './lock-timeouts.ts';
import { REWRITES } from './rewrites.ts';
import { SCANS } from './scans.ts';
import { laterWork } from './transactions.ts';

/** Statements that exist to take a lock, or whose default form takes a stronger lock than necessary. */
export const LOCKING: readonly HazardRecord[] = [
  behindReaders(
    blocking({
      code: 'DETACH_PARTITION_NOT_CONCURRENT',
      title: 'a partition is detached while the whole partitioned table is blocked',
      condition:
        'DETACH PARTITION without CONCURRENTLY. At least a warning if a transaction on the table was old when the target was sampled.',
      effect: 'ACCESS EXCLUSIVE on the partitioned table: queries on all its partitions wait.',
      safer:
        'DETACH PARTITION … CONCURRENTLY, outside a transaction; impossible if there is a DEFAULT partition.',
      does: 'detach partition',
      when: ({ action }) => !action.concurrently,
      momentary: true,
      messageOf: ({ relation }) =>
        `reads and writes of all of ${relation} wait until the partition is detached`,
      adviceOf: ({ context, statement, action, relation }) =>
        sqlAdvice(
          'Outside a transaction:',
          `ALTER TABLE ${relation} DETACH PARTITION ${context.resolve(action.partition, statement)} CONCURRENTLY`,
        ),
    }),
  ),
  blocking({
    code: 'REFRESH_NOT_CONCURRENT',
    title: 'a materialized view is refreshed while its readers wait',
    condition: 'REFRESH MATERIALIZED VIEW without CONCURRENTLY on a view that existed before the command.',
    effect: 'ACCESS EXCLUSIVE on the view for as long as its query runs.',
    safer: 'REFRESH MATERIALIZED VIEW CONCURRENTLY, which needs a unique index on the view.',
    does: 'refresh',
    when: ({ action }) => !action.concurrently,
    messageOf: ({ relation }) => `readers of ${relation} wait while its query runs`,
    adviceOf: ({ context, statement, relation }) =>
      sqlAdvice(
        'With a unique index on the view:',
        ...(context.saferText(statement, 'concurrent') ?? [
          `REFRESH MATERIALIZED VIEW CONCURRENTLY ${relation}`,
        ]),
      ),
  }),
  blocking({
    code: 'TRIGGER_IN_LONG_TRANSACTION',
    title: 'a trigger is created, and writes wait until its transaction ends',
    condition: 'CREATE TRIGGER on an existing table, followed by more work in the same transaction.',
    effect:
      'SHARE ROW EXCLUSIVE on the table until the transaction ends: every write waits. There is no form with a weaker lock.',
    safer: 'CREATE TRIGGER in a transaction of its own, with a lock_timeout, and retry after a timeout.',
    does: 'create trigger',
    when: ({ context, statement }) => laterWork(context, statement).length > 0,
    momentary: true,
    messageOf: ({ relation, action }) =>
      `writes to ${relation} wait from CREATE TRIGGER ${displayName(action.trigger)} until its transaction ends`,
    adviceOf: ({ action }) =>
      sqlAdvice(
        'In a transaction of its own:',
        "SET lock_timeout = '2s'",
        `CREATE TRIGGER ${displayName(action.trigger)} …`,
      ),
  }),
  {
    code: 'LOCK_TABLE',
    title: 'LOCK TABLE blocks others',
    condition: 'LOCK TABLE in a mode that blocks writes, on a table that existed before the command.',
    effect: 'Writes (with ACCESS EXCLUSIVE also reads) wait until the transaction ends.',
    safer:
      'SHARE UPDATE EXCLUSIVE or an advisory lock to keep other migrations away, or SELECT … FOR UPDATE of the rows in question.',
    find: (context) =>
      context.actionsOf('lock').flatMap(({ statement, action }) =>
        action.tables
          .map((table) => context.resolve(table, statement))
          .filter((table) => context.relation(table) && blocks(action.mode as LockMode).includes('writes'))
          .map((table) =>
            lockFinding(
              context,
              statement,
              table,
              `${action.mode === 'ACCESS EXCLUSIVE' ? 'reads and writes of' : 'writes to'} ${table} wait until the transaction ends`,
              sqlAdvice(
                'To keep other migrations away, a weaker lock is enough:',
                `LOCK TABLE ${table} IN SHARE UPDATE EXCLUSIVE MODE`,
              ),
              true,
            ),
          ),
      ),
  },
];

/** The same hazard, as a warning at least if it was seen that a long transaction would keep it waiting, and others behind it. */
function behindReaders(hazard: HazardRecord): HazardRecord {
  return {
    ...hazard,
    find: (context) =>
      hazard.find(context).map((finding) => {
        const lock = { relation: finding.relation ?? '', mode: 'ACCESS EXCLUSIVE' as const, heldMs: null };
        const { ms, words } = usualWait(context, lock);
        return ms < LONG_TRANSACTION_MS
          ? finding
          : {
              ...finding,
              severity: worst([finding.severity, 'warning']),
              evidence: `${finding.evidence}; ${words}`,
            };
      }),
  };
}

const EXPLAINING: readonly HazardRecord[] = [...BUILDS, ...SCANS, ...LOCKING, ...REWRITES, ...FOREIGN_KEYS];

/** Measured locks that no other hazard explains. */
export const UNEXPLAINED: readonly HazardRecord[] = [
  {
    code: 'STRONG_LOCK_HELD',
    title: 'a statement blocks others for a long time',
    condition: `A statement takes a lock that blocks reads or writes and runs for ${REPORTED_FROM_MS} ms or more, and no other hazard explains it: a DO block, a function, a change of type that rebuilds indexes. If it only changes the catalogues, a busy machine explains up to ${WARNING.heldMs} ms, and the size of the table says nothing.`,
    effect: 'Everybody who comes in the meantime waits, and occupies a connection.',
    safer: 'Find out what takes the time, and do it before the lock, after it, or in separate statements.',
    find: (context) => {
      const explained = new Set(
        EXPLAINING.flatMap(({ find }) => find(context)).map(({ statement }) => statement),
      );
      return context.facts.statements
        .filter(
          (each) =>
            longestMs(each) >= (isOfCatalogues(context, each) ? WARNING.heldMs : REPORTED_FROM_MS) &&
            !explained.has(each.index),
        )
        .flatMap((statement) =>
          heldForLong(context, statement).map((lock) => ({
            statement: statement.index,
            relation: lock.relation,
            severity: weighLock(context, lock, !isOfCatalogues(context, statement)),
            message: `${statement.tag ?? 'a statement'} blocks others on ${lock.relation}`,
            evidence: locksEvidence(context, [lock]),
            advice: 'Split it into separate statements, and run the long ones without the lock.',
          })),
        );
    },
  },
];

/** Actions that read and write no rows, unless they rewrite a table. */
const OF_CATALOGUES: ReadonlySet<Action['does']> = new Set([
  ...(['add column', 'drop column', 'set default', 'drop default', 'drop not null', 'rename'] as const),
  ...(['drop constraint', 'create trigger', 'disable trigger', 'row security', 'replica identity'] as const),
]);

/** Tells if a statement takes a moment on an idle machine, for any size of the table. */
function isOfCatalogues(context: HazardContext, statement: StatementSection): boolean {
  const actions = context.actions(statement);
  return (
    statement.rewrote.length === 0 &&
    actions.length > 0 &&
    actions.every(
      (action) =>
        OF_CATALOGUES.has(action.does) ||
        (action.does === 'add constraint' && (action.notValid || action.usingIndex !== null)),
    )
  );
}

/** Not those that a procedure released soon: they were seen for a moment, or never. */
function heldForLong(context: HazardContext, statement: StatementSection): StatementLock[] {
  const unseen = (statement.locks ?? []).filter(
    ({ byRule, heldMs }) => byRule && heldMs !== null && heldMs < statement.durationMs,
  );
  return context
    .taken(statement, 'writes')
    .filter(
      ({ relation, mode, heldMs }) =>
        (heldMs === null || heldMs >= REPORTED_FROM_MS) &&
        !unseen.some((lock) => lock.relation === relation && lock.mode === mode),
    );
}
