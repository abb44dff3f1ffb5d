import { blocks, type LockMode } from '../../postgres/lock-modes.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { blocking, type HazardRecord, lockFinding, sqlAdvice } from '../hazard-definition.ts';
import { laterWork } from './transactions.ts';

/** Statements that exist to take a lock, or whose default form takes a stronger lock than necessary. */
export const LOCKING: readonly HazardRecord[] = [
  blocking({
    code: 'DETACH_PARTITION_NOT_CONCURRENT',
    title: 'a partition is detached while the whole partitioned table is blocked',
    condition: 'DETACH PARTITION without CONCURRENTLY.',
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
        ...(context.concurrentForm(statement) ?? [`REFRESH MATERIALIZED VIEW CONCURRENTLY ${relation}`]),
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
