import { describe, expect, test } from 'vitest';
import { compareQueries } from '../../../src/observe/checks/compare-queries.ts';
import {
  changedNode,
  type Plan,
  type QueryTrial,
  readPlan,
} from '../../../src/observe/checks/try-queries.ts';
import { beginsAsPreparable } from '../../../src/postgres/sql/classify-statement.ts';

const scan = (type: string, totalCost = 10, more: Partial<Plan> = {}): Plan => ({
  type,
  relation: 'orders',
  index: null,
  alias: 'orders',
  totalCost,
  inputs: [],
  ...more,
});
const over = (type: string, ...inputs: Plan[]): Plan => ({
  type,
  relation: null,
  index: null,
  alias: null,
  totalCost: 100,
  inputs,
});
const planned = (plan: Plan | null): QueryTrial => ({ error: null, plan, row: null });
const failed: QueryTrial = { error: { sqlstate: '42703', message: 'no' }, plan: null, row: null };

describe('a text can be prepared', () => {
  test.each([
    'SELECT 1',
    '  with x as (select 1) table x',
    '-- a comment\n/* another\none */ update t set a = $1',
    '((SELECT 1) UNION (SELECT 2))',
    'MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE',
    'values (1)',
  ])('when it begins as %j', (sql) => {
    expect(beginsAsPreparable(sql)).toBe(true);
  });

  test.each([
    'BEGIN',
    'CREATE TABLE t AS SELECT 1',
    'selection',
    '-- SELECT',
    'EXPLAIN SELECT 1',
    'CALL p()',
    '',
  ])('but not %j', (sql) => {
    expect(beginsAsPreparable(sql)).toBe(false);
  });
});

describe('of two plans', () => {
  test('the relation that is read in another way is told, the dearest of several', () => {
    const before = over(
      'Hash Join',
      scan('Index Scan', 8, { index: 'orders_pkey' }),
      scan('Seq Scan', 5, { alias: 'o2' }),
    );
    const after = over(
      'Hash Join',
      scan('Seq Scan', 900),
      scan('Bitmap Heap Scan', 50, { alias: 'o2', relation: 'other' }),
    );
    expect(changedNode(before, after)).toEqual({
      before: 'Index Scan using orders_pkey on orders',
      after: 'Seq Scan on orders',
    });
  });

  test('else the first node from the top that is of another kind', () => {
    const before = over('Limit', over('Nested Loop', scan('Seq Scan')));
    const after = over('Limit', over('Hash Join', scan('Seq Scan')));
    expect(changedNode(before, after)).toEqual({ before: 'Nested Loop', after: 'Hash Join' });
  });

  test('nothing is told where they have one shape', () => {
    expect(changedNode(scan('Seq Scan', 1), scan('Seq Scan', 1000))).toBeNull();
  });

  test('what EXPLAIN does not say is not made up', () => {
    expect(readPlan([{ Plan: { 'Node Type': 'Result', 'Total Cost': 0.01 } }])).toEqual({
      type: 'Result',
      relation: null,
      index: null,
      alias: null,
      totalCost: 0.01,
      inputs: [],
    });
    expect(readPlan('EXPLAIN')).toBeUndefined();
  });
});

describe('a query', () => {
  const source = {
    source: 'f.sql',
    countedSince: null,
    queries: [{ sql: 'SELECT 1', calls: 3, callsPerSecond: 0.5 }],
    utility: 2,
    hidden: 1,
  };
  const compared = (before: QueryTrial, after: QueryTrial) => compareQueries(source, [before], [after]);

  test('that worked before and not after is broken', () => {
    expect(compared(planned(null), failed)).toMatchObject({
      checked: 1,
      planned: false,
      skipped: { utility: 2, failedBefore: 0, hidden: 1 },
      broken: [{ sql: 'SELECT 1', calls: 3, callsPerSecond: 0.5, error: { sqlstate: '42703' } }],
    });
  });

  test('that failed before is counted, whatever it does after', () => {
    for (const after of [failed, planned(null)])
      expect(compared(failed, after)).toMatchObject({ checked: 0, skipped: { failedBefore: 1 }, broken: [] });
  });

  test.each([
    [8, 80, true],
    [8, 79, false],
    [0.01, 49, false],
    [5, 50, true],
    [1000, 100, false],
  ])('whose cost goes from %d to %d is slower: %s', (before, after, slower) => {
    const section = compared(planned(scan('Index Scan', before)), planned(scan('Seq Scan', after)));
    expect(section.slower).toHaveLength(slower ? 1 : 0);
    expect(section.planned).toBe(true);
  });
});
