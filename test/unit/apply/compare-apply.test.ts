import { describe, expect, test } from 'vitest';
import { compareSchemas, compareTimes, failedOnlyHere, lostRows } from '../../../src/apply/compare-apply.ts';
import type { SchemaChange } from '../../../src/model/report.ts';
import { rehearsedOf } from '../../../src/rehearsal/receipts/rehearsed.ts';
import { schema } from '../../helpers/facts.ts';

const sent = (...texts: string[]) =>
  texts.map((sql, at) => ({ index: at + 1, sql, durationMs: (at + 1) * 10 }));

describe('the comparison of times', () => {
  test('compareTimes() pairs statements by their normalized text, in their order', () => {
    const rehearsed = rehearsedOf(
      sent('BEGIN', 'INSERT INTO t VALUES (1)', 'INSERT INTO t VALUES (2)', 'COMMIT'),
    );
    const applied = sent(
      'BEGIN',
      'SELECT now()',
      'INSERT  INTO t VALUES (7)',
      'INSERT INTO t VALUES (8)',
      'COMMIT',
    );
    expect(compareTimes(rehearsed, applied)).toMatchObject([
      { sql: 'BEGIN', rehearsed: 1, applied: 1, rehearsedMs: 10, appliedMs: 10 },
      { sql: 'INSERT  INTO t VALUES (7)', rehearsed: 2, applied: 3, rehearsedMs: 20, appliedMs: 30 },
      { sql: 'INSERT INTO t VALUES (8)', rehearsed: 3, applied: 4, rehearsedMs: 30, appliedMs: 40 },
      { sql: 'COMMIT', rehearsed: 4, applied: 5, rehearsedMs: 40, appliedMs: 50 },
    ]);
  });

  test('lostRows() compares rows of DELETE, and of UPDATE that changed none', () => {
    const of = (index: number, sql: string, tag: string, rows: number) => ({
      ...sent(sql)[0],
      index,
      sql,
      durationMs: 1,
      tag,
      rows,
    });
    const rehearsed = rehearsedOf([
      of(1, 'DELETE FROM t WHERE id < 0', 'DELETE 0', 0),
      of(2, 'DELETE FROM u WHERE id = 1', 'DELETE 1', 1),
      of(3, 'UPDATE t SET a = 1', 'UPDATE 7', 7),
      of(4, 'UPDATE u SET a = 1 WHERE id < 0', 'UPDATE 0', 0),
    ]);
    const applied = [
      of(1, 'DELETE FROM t WHERE id < 900', 'DELETE 899', 899),
      of(2, 'DELETE FROM u WHERE id = 1', 'DELETE 1', 1),
      of(3, 'DELETE FROM u WHERE id = 2', 'DELETE 1', 1),
      of(4, 'UPDATE t SET a = 1', 'UPDATE 9', 9),
      of(5, 'UPDATE u SET a = 1 WHERE id < 9', 'UPDATE 3', 3),
    ];
    expect(lostRows(rehearsed, applied)).toEqual([
      'statement 1 deleted 899 rows, 0 in the rehearsal',
      'statement 2 deleted 2 rows, 1 in the rehearsal',
      'statement 5 changed 3 rows, 0 in the rehearsal',
    ]);
  });

  test('compareTimes() leaves additional batches without a partner', () => {
    const rehearsed = rehearsedOf(sent('DELETE FROM t WHERE id < 10'));
    expect(
      compareTimes(rehearsed, sent('DELETE FROM t WHERE id < 5', 'DELETE FROM t WHERE id < 9')),
    ).toHaveLength(1);
  });
});

describe('statements that failed on the target only', () => {
  const [update, insert] = ['UPDATE t SET a = 1', 'INSERT INTO t VALUES (1)'];
  const failing = (sql: string, sqlstate: string) => ({ sql, error: { sqlstate } as never });
  const done = (sql: string) => ({ sql, error: null });
  const onTarget = (...applied: Parameters<typeof failedOnlyHere>[1]) =>
    failedOnlyHere(
      rehearsedOf([...sent(update), ...sent(insert).map((each) => ({ ...each, error: {} as never }))]),
      applied,
    );

  test('failedOnlyHere() names what had succeeded in the rehearsal and was not repeated', () => {
    expect(onTarget(failing(update, '40P01'))).toEqual([update]);
    expect(onTarget(failing(update, '40P01'), done('UPDATE t SET a = 2'))).toEqual([]);
    expect(onTarget(failing(update, '23514'), done('UPDATE t SET a = 2'))).toEqual([update]);
    expect(onTarget(failing(insert, '23505'))).toEqual([]);
  });
});

describe('the comparison of schemas', () => {
  const change = (object: string): SchemaChange => ({
    verb: 'create',
    kind: 'table',
    object,
    sql: `CREATE TABLE ${object} ()`,
    dataLoss: false,
  });
  const section = (before: string, after: string, ...changes: SchemaChange[]) =>
    schema({ before, after, changes, rollbackSql: '' });

  test('compareSchemas() finds schemas equal by their fingerprints', () => {
    expect(compareSchemas(section('a', 'b'), section('a', 'b'))).toEqual({ equal: true, differences: [] });
  });

  test('compareSchemas() reports missing changes, and changes that were not rehearsed', () => {
    const rehearsed = section('a', 'b', change('one'), change('two'));
    expect(compareSchemas(rehearsed, section('a', 'c', change('two'), change('three')))).toEqual({
      equal: false,
      differences: ['missing: create table one', 'not rehearsed: create table three'],
    });
  });

  test('compareSchemas() compares the changes if the clone lacked something of the target', () => {
    expect(compareSchemas(section('a', 'b', change('one')), section('x', 'y', change('one'))).equal).toBe(
      true,
    );
    expect(compareSchemas(section('a', 'b', change('one')), section('x', 'y')).equal).toBe(false);
    expect(compareSchemas(section('a', 'b', change('one')), section('a', 'y', change('one'))).equal).toBe(
      false,
    );
  });
});
