import { describe, expect, test } from 'vitest';
import { findHazards } from '../../../src/hazards/catalogue.ts';
import type { HazardFacts } from '../../../src/model/hazard-facts.ts';
import type { Action } from '../../../src/model/statement-actions.ts';
import { asking, facts, relation, statement } from '../../helpers/facts.ts';

const ORDERS = { schema: 'public', name: 'orders' };
const timeout = (ms: number): Action => ({ does: 'set lock_timeout', off: false, local: false, ms });
const READER = { relation: 'public.orders', mode: 'AccessShareLock', ageMs: 6_000 };

/** Severities and codes for an action on a small table. */
function found(action: Action, given: Partial<HazardFacts> = {}, setting?: Action): string[] {
  const isConcurrent = 'concurrently' in action && action.concurrently;
  return findHazards(
    facts({
      statements: [
        statement(1, { tag: 'SET' }),
        statement(2, {
          tag: 'ALTER TABLE',
          locks: isConcurrent ? [] : [['public.orders', 'ACCESS EXCLUSIVE', 2]],
        }),
      ],
      parsed: asking({ 1: setting ? [setting] : [], 2: action }),
      catalogue: {
        relations: new Map([['public.orders', relation(8192, 10)]]),
        lockTimeoutByDefault: false,
      },
      ...given,
    }),
  ).map(({ severity, code }) => `${severity} ${code}`);
}

const DROP_DEFAULT: Action = { does: 'drop default', table: ORDERS, column: 'a' };
const DETACH: Action = {
  does: 'detach partition',
  table: ORDERS,
  partition: { schema: null, name: 'orders_2025' },
  concurrently: false,
};
const INDEX: Action = {
  does: 'create index',
  table: ORDERS,
  index: 'orders_a',
  method: 'btree',
  concurrently: true,
  unique: false,
  ifNotExists: false,
  only: false,
};

describe('a strong lock behind a long reader', () => {
  test('is a warning if there is no lock_timeout', () => {
    expect(found(DROP_DEFAULT)).toEqual(['notice NO_LOCK_TIMEOUT']);
    expect(found(DROP_DEFAULT, { openTransactions: [READER] })).toEqual(['warning NO_LOCK_TIMEOUT']);
    expect(found(DROP_DEFAULT, { openTransactions: [{ ...READER, ageMs: 4_000 }] })).toEqual([
      'notice NO_LOCK_TIMEOUT',
    ]);
    const recorded = [{ relations: ['public.orders'], durationMs: 7_000, unordered: [] }];
    expect(found(DROP_DEFAULT, { recorded })).toEqual(['warning NO_LOCK_TIMEOUT']);
  });

  test('is given up if the lock_timeout is shorter than the transaction of the reader', () => {
    const given = { openTransactions: [READER] };
    expect(found(DROP_DEFAULT, given, timeout(2_000))).toEqual(['warning LOCK_TIMEOUT_TOO_SHORT']);
    expect(found(DROP_DEFAULT, given, timeout(10_000))).toEqual([]);
    expect(
      found(DROP_DEFAULT, { openTransactions: [{ ...READER, relation: 'public.b' }] }, timeout(1)),
    ).toEqual([]);
  });

  test('makes a warning of a plain DETACH', () => {
    expect(found(DETACH, {}, timeout(60_000))).toEqual(['notice DETACH_PARTITION_NOT_CONCURRENT']);
    expect(found(DETACH, { openTransactions: [READER] }, timeout(60_000))).toEqual([
      'warning DETACH_PARTITION_NOT_CONCURRENT',
    ]);
  });
});

test('an index that is built CONCURRENTLY with a lock_timeout is a warning if an older transaction outlasts it', () => {
  expect(found(INDEX)).toEqual([]);
  expect(found(INDEX, {}, timeout(500))).toEqual(['warning CONCURRENTLY_WITH_LOCK_TIMEOUT']);
  expect(found(INDEX, {}, timeout(5_000))).toEqual(['notice CONCURRENTLY_WITH_LOCK_TIMEOUT']);
  expect(found(INDEX, { oldestTransactionMs: 8_000 }, timeout(5_000))).toEqual([
    'warning CONCURRENTLY_WITH_LOCK_TIMEOUT',
  ]);
});

test('REPACK (CONCURRENTLY) leaves nothing when it is given up', () => {
  const repack: Action = { does: 'repack', table: ORDERS, ordered: false, concurrently: true };
  expect(found(repack, {}, timeout(500))).toEqual([]);
});
