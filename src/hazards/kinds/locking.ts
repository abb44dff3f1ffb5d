import { blocks, type LockMode } from '../../postgres/lock-modes.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { blocking, type HazardRecord, lockFinding, sqlAdvice } from '../hazard-definition.ts';
import { laterWork } from './transactions.ts';

/** Statements whose lock is the point, or has no weaker form that is asked for by default. */
export const LOCKING: readonly HazardRecord[] = [
  blocking({
    code: 'DETACH_PARTITION_NOT_CONCURRENT',
    title: 'a partition is detached while the whole partitioned table waits',
    condition: 'DETACH PARTITION without CONCURRENTLY.',
    effect: 'ACCESS EXCLUSIVE on the partitioned table: queries of all its partitions wait.',
    safer: 'DETACH PARTITION … CONCURRENTLY, outside a transaction; not where there is a DEFAULT partition.',
    does: 'detach partition',
    when: ({ action }) => !action.concurrently,
    brief: true,
    says: ({ relation }) => `reads and writes of all of ${relation} wait until the partition is detached`,
    advises: ({ ground, statement, action, relation }) =>
      sqlAdvice(
        'Outside a transaction:',
        `ALTER TABLE ${relation} DETACH PARTITION ${ground.resolve(action.partition, statement)} CONCURRENTLY`,
      ),
  }),
  blocking({
    code: 'REFRESH_NOT_CONCURRENT',
    title: 'a materialized view is filled anew while its readers wait',
    condition: 'REFRESH MATERIALIZED VIEW without CONCURRENTLY on a view that was there before.',
    effect: 'ACCESS EXCLUSIVE on the view for as long as its query runs.',
    safer: 'REFRESH MATERIALIZED VIEW CONCURRENTLY, which needs a unique index on the view.',
    does: 'refresh',
    when: ({ action }) => !action.concurrently,
    says: ({ relation }) => `readers of ${relation} wait while its query runs`,
    advises: ({ relation }) =>
      sqlAdvice('With a unique index on the view:', `REFRESH MATERIALIZED VIEW CONCURRENTLY ${relation}`),
  }),
  blocking({
    code: 'TRIGGER_IN_LONG_TRANSACTION',
    title: 'a trigger is made, and writes wait until the rest of its transaction is done',
    condition:
      'CREATE TRIGGER on a table that was there before, with more work behind it in its transaction.',
    effect:
      'SHARE ROW EXCLUSIVE on the table until the transaction ends: every write waits. There is no weaker form.',
    safer: 'CREATE TRIGGER in a transaction of its own, with a lock_timeout, tried again when it runs out.',
    does: 'create trigger',
    when: ({ ground, statement }) => laterWork(ground, statement).length > 0,
    brief: true,
    says: ({ relation, action }) =>
      `writes to ${relation} wait from CREATE TRIGGER ${displayName(action.trigger)} until its transaction ends`,
    advises: ({ action }) =>
      sqlAdvice(
        'In a transaction of its own:',
        "SET lock_timeout = '2s'",
        `CREATE TRIGGER ${displayName(action.trigger)} …`,
      ),
  }),
  {
    code: 'LOCK_TABLE',
    title: 'LOCK TABLE keeps others out',
    condition: 'LOCK TABLE in a mode that keeps out writes, on a table that was there before.',
    effect: 'Whoever writes (with ACCESS EXCLUSIVE: whoever reads) waits until the transaction ends.',
    safer:
      'SHARE UPDATE EXCLUSIVE to keep other migrations away, an advisory lock, or SELECT … FOR UPDATE of the rows in question.',
    find: (ground) =>
      ground.met('lock').flatMap(({ statement, action }) =>
        action.tables
          .map((table) => ground.resolve(table, statement))
          .filter((table) => ground.relation(table) && blocks(action.mode as LockMode).includes('writes'))
          .map((table) =>
            lockFinding(
              ground,
              statement,
              table,
              `${action.mode === 'ACCESS EXCLUSIVE' ? 'reads and writes of' : 'writes to'} ${table} wait until the transaction ends`,
              sqlAdvice(
                'If it is to keep other migrations away, a weaker lock does it:',
                `LOCK TABLE ${table} IN SHARE UPDATE EXCLUSIVE MODE`,
              ),
              true,
            ),
          ),
      ),
  },
];
