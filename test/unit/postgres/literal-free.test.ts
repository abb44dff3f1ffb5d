import { expect, test } from 'vitest';
import { literalFree } from '../../../src/postgres/sql/literal-free.ts';

test.each([
  [
    'SELECT * FROM a WHERE b = $1 AND c::numeric(10, 2) > $2',
    'SELECT * FROM a WHERE b = $1 AND c::numeric(10, 2) > $2',
  ],
  ["/* user='Ann' */ SELECT a -- 4711\nFROM b", 'SELECT a  \nFROM b'],
  ['SELECT interval $1', 'SELECT interval $1'],
])('%j holds no value', async (sql, bare) => {
  expect((await literalFree(sql))?.replace(/ +/g, ' ')).toBe(bare.replace(/ +/g, ' '));
});

test.each([
  "SELECT * INTO kept FROM a WHERE b = 'Ann'",
  'SELECT * INTO kept FROM a',
  "SELECT 'Ann'",
  'SELECT $$Ann$$',
  'SELECT a FROM b LIMIT 10',
  'SELECT card(4111111111111111)',
  "SELECT E'a",
  'WITH a AS (SELECT 1) SELECT * FROM a',
])('%j may hold one', async (sql) => {
  expect(await literalFree(sql)).toBeNull();
});
