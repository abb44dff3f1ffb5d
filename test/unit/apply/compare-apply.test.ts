import { describe, expect, test } from 'vitest';
import { compareSchemas, compareTimes, failedOnlyHere } from '../../../src/apply/compare-apply.ts';
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
    expect(compareTimes(rehearsed, applied)).toEqual([
      { sql: 'BEGIN', rehearsed: 1, applied: 1, rehearsedMs: 10, appliedMs: 10 },
      { sql: 'INSERT  INTO t VALUES (7)', rehearsed: 2, applied: 3, rehearsedMs: 20, appliedMs: 30 },
      { sql: 'INSERT INTO t VALUES (8)', rehearsed: 3, applied: 4, rehearsedMs: 30, appliedMs: 40 },
      { sql: 'COMMIT', rehearsed: 4, applied: 5, rehearsedMs: 40, appliedMs: 50 },
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

test('rehearsedOf() separates DDL from DML', () => {
  const { ddl, dml } = rehearsedOf(sent('CREATE TABLE a ()', 'INSERT INTO a VALUES (1)', '-- hi\nSELECT 1'));
  // DDL is known by its text and by its shape.
  expect([ddl.size, dml.size]).toEqual([2, 2]);
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
