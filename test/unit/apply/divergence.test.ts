import { describe, expect, test } from 'vitest';
import { blockedBehind } from '../../../src/observe/activity-reader.ts';
import { type ComparedRuns, compareRuns } from '../../helpers/compare-runs.ts';

async function divergesFrom(
  rehearsed: readonly string[],
  sql: string,
  options: ComparedRuns = {},
): Promise<boolean> {
  const [answer] = await compareRuns(rehearsed, [sql], { databases: ['shop', 'shop_copy'], ...options });
  return answer !== 'rehearsed';
}

describe('a statement that was not rehearsed', () => {
  test.each([
    ['DDL by its text', ['ALTER TABLE t ADD COLUMN c int'], 'alter table t add column c int', true],
    ['DDL whatever its spacing', ['ALTER TABLE t  ADD c int;'], 'ALTER TABLE t\n ADD c int -- now', false],
    ['DDL by its literals', ["ALTER TYPE e ADD VALUE 'a'"], "ALTER TYPE e ADD VALUE 'b'", true],
    ['code by its body', ['DO $$ begin perform 1; end $$'], 'DO $$ begin perform 2; end $$', true],
    ['a table made from a query', ['CREATE TABLE a AS SELECT 1'], 'CREATE TABLE a AS SELECT 1', false],
    [
      'a role, whose password the report hides',
      ["CREATE ROLE r PASSWORD '…'"],
      "CREATE ROLE r PASSWORD 'x'",
      false,
    ],
    ['DML by its shape', ["INSERT INTO t VALUES (1, 'a')"], "INSERT INTO t VALUES (2, 'b')", false],
    [
      'DML in larger batches',
      ['INSERT INTO t VALUES ($1, $2)'],
      'INSERT INTO t VALUES ($1, $2), ($3, $4)',
      false,
    ],
    [
      'a list of another length',
      ['DELETE FROM t WHERE id IN (1, 2)'],
      'DELETE FROM t WHERE id IN (7)',
      false,
    ],
    ['DML by its tables', ['DELETE FROM t WHERE id = 1'], 'DELETE FROM u WHERE id = 1', true],
    ['DML by its conditions', ['DELETE FROM t WHERE id = 1'], 'DELETE FROM t', true],
    [
      'the target, which is its clone there',
      ['ALTER DATABASE "shop_copy" SET jit = off'],
      'ALTER DATABASE shop SET jit = off',
      false,
    ],
    ['another database', ['ALTER DATABASE shop SET jit = off'], 'ALTER DATABASE other SET jit = off', true],
    [
      'a comment, which is our mark there',
      ["COMMENT ON DATABASE shop_copy IS 'mark'"],
      "COMMENT ON DATABASE shop IS 'x'",
      false,
    ],
    ['a database with our limit', ['CREATE DATABASE n\nCONNECTION LIMIT 1234'], 'CREATE DATABASE n', false],
    ['a text that cannot be parsed by its text', ['SELEC 1'], 'SELEC 2', true],
  ])('is found by comparing %s', async (_what, rehearsed, sql, expected) => {
    expect(await divergesFrom(rehearsed, sql)).toBe(expected);
  });

  test('is found by comparing DDL by its normalized text after a redacted rehearsal', async () => {
    const rehearsed = ["ALTER TYPE e ADD VALUE '…'"];
    expect(await divergesFrom(rehearsed, "ALTER TYPE e ADD VALUE 'a'", { redacted: true })).toBe(false);
  });
});

describe('statements that need no rehearsal', () => {
  test.each([
    'BEGIN',
    'SET search_path TO app',
    'SHOW server_version',
    'SELECT 1',
    'SELECT version(), current_schema()',
    'SELECT pg_advisory_lock(42)',
    'SELECT table_name FROM information_schema.tables',
    'WITH a AS (SELECT oid FROM pg_class) SELECT * FROM a JOIN pg_catalog.pg_index i ON i.indrelid = a.oid',
  ])('need no rehearsal: %s', async (sql) => {
    expect(await divergesFrom([], sql)).toBe(false);
  });

  test.each([
    'SELECT * FROM t',
    'SELECT migrate_everything()',
    'SELECT * INTO t FROM pg_class',
    'WITH gone AS (DELETE FROM pg_class RETURNING *) SELECT * FROM gone',
    'SELECT relname FROM pg_class WHERE EXISTS (SELECT FROM t)',
    'LOCK TABLE t',
    'VACUUM t',
    'NOTIFY t',
    'SELECT to_archive()',
    "SELECT pg_catalog.query_to_xml('SELECT 1', true, true, '')",
    'SELECT pg_terminate_backend(1)',
    "SELECT pg_drop_replication_slot('s')",
    "SELECT pg_catalog.setval('s', 1)",
    'SELECT * FROM pg_made',
    'SELECT public.now()',
    'SELECT c.current_schema FROM pg_class c WHERE c.purge',
  ])('need a rehearsal: %s', async (sql) => {
    expect(await divergesFrom([], sql, { target: { relations: ['pg_made'], code: ['purge'] } })).toBe(true);
  });
});

describe('the sessions that a backend blocks', () => {
  const waiter = (pid: number, blockers: number[], sinceMs: number) => ({
    pid,
    relation: null,
    blockers,
    sinceMs,
    nowMs: 10_000,
    hurt: true,
  });

  test('blockedBehind() counts direct and indirect waits since the start of the transaction', () => {
    const waiters = [waiter(20, [10], 4_000), waiter(21, [20], 9_000), waiter(22, [99], 0)];
    expect(blockedBehind(10, 6_000, waiters, new Set([10]))).toEqual({ waiting: 2, longestMs: 4_000 });
  });

  test('blockedBehind() ignores waits for an advisory lock and for CREATE INDEX CONCURRENTLY', () => {
    const waiters = [{ ...waiter(20, [10], 4_000), hurt: false }];
    expect(blockedBehind(10, null, waiters, new Set([10]))).toEqual({ waiting: 0, longestMs: 0 });
  });

  test('blockedBehind() ignores other backends of the command', () => {
    expect(blockedBehind(10, null, [waiter(11, [10], 0)], new Set([10, 11]))).toEqual({
      waiting: 0,
      longestMs: 0,
    });
  });
});
