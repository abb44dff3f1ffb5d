import { beforeAll, expect, test } from 'vitest';
import { countOf } from '../../../src/observe/effects/filtered-writes.ts';
import { loadParser } from '../../../src/postgres/sql/load-parser.ts';

beforeAll(() => loadParser().loadModule());

const COUNT = 'SELECT pg_catalog.count(*)::pg_catalog.int8 AS rows, current_user AS role FROM ';

test.each([
  ['UPDATE t SET a = 1', 't'],
  [
    'UPDATE ONLY app.t AS x SET a = (SELECT b FROM u WHERE c) WHERE x.b > 1;',
    'ONLY app.t AS x WHERE x.b > 1',
  ],
  ['update t set a = u.a from u where u.id = t.id returning t.id', 't, u WHERE u.id = t.id'],
  ['DELETE FROM t', 't'],
  ['DELETE FROM t x USING u, v WHERE x.id = u.id RETURNING *', 't x, u, v WHERE x.id = u.id'],
])('%s is about the rows of a query', async (sql, from) => {
  expect(await countOf(sql)).toBe(`${COUNT}${from}`);
});

test('a WITH that only reads stays before the query', async () => {
  const batch = 'WITH RECURSIVE b AS (SELECT id FROM t FOR UPDATE SKIP LOCKED)';
  expect(await countOf(`${batch} UPDATE t SET a = 1 FROM b WHERE t.id = b.id`)).toBe(
    `${batch} ${COUNT}t, b WHERE t.id = b.id`,
  );
});

test.each([
  'UPDATE t SET a = $1',
  'WITH u AS (DELETE FROM u RETURNING id) UPDATE t SET a = 1',
  'WITH u AS (DELETE FROM t RETURNING id) SELECT id FROM u',
  'DELETE FROM t WHERE CURRENT OF c',
  'INSERT INTO t SELECT 1',
])('%s is not compared', async (sql) => {
  expect(await countOf(sql)).toBeNull();
});
