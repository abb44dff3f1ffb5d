import { expect, test } from 'vitest';
import { statementFacts } from '../../../../src/observe/statement-facts.ts';
import { keyFromIndex } from '../../../../src/postgres/sql/key-from-index.ts';
import { buildConcurrently, dropConcurrently } from '../../../../src/propose/concurrent-forms.ts';
import { readStatement, subjectWith } from '../../../../src/propose/subject.ts';
import { statement } from '../../../helpers/facts.ts';

const formOf = async (sql: string) => (await statementFacts([statement(1, { sql })])).get(1)?.concurrentForm;

test.each([
  ['create index i on t (a);', ['create index CONCURRENTLY i on t (a)']],
  ['CREATE UNIQUE INDEX "index" -- fast\n ON t (a)', ['CREATE UNIQUE INDEX CONCURRENTLY "index" ON t (a)']],
  [
    'DROP INDEX IF EXISTS a, s.b RESTRICT',
    ['DROP INDEX CONCURRENTLY IF EXISTS a', 'DROP INDEX CONCURRENTLY IF EXISTS s.b RESTRICT'],
  ],
  ['REINDEX (VERBOSE) TABLE s.t', ['REINDEX (VERBOSE) TABLE CONCURRENTLY s.t']],
  ['REFRESH MATERIALIZED VIEW v', ['REFRESH MATERIALIZED VIEW CONCURRENTLY v']],
  ['REFRESH MATERIALIZED VIEW v WITH NO DATA', []],
  ['CREATE INDEX CONCURRENTLY i ON t (a)', []],
  ['DROP INDEX a CASCADE', []],
  ['DROP TABLE t', []],
  ['REINDEX SYSTEM shop', []],
])('%s has a concurrent form: %j', async (sql, form) => {
  expect(await formOf(sql)).toEqual(form);
});

test('the advice shows what the proposal sends', async () => {
  const before = { relations: new Map(), columns: new Map() };
  for (const [sql, propose] of [
    ['CREATE INDEX i ON orders (status)', buildConcurrently],
    ['DROP INDEX i, j', dropConcurrently],
  ] as const) {
    const read = await readStatement(sql, []);
    if (!read) throw new Error(sql);
    const sent = {
      ...read,
      codes: new Set<string>(),
      rows: 0,
      relation: () => 'public.orders',
      newlyNotNull: () => [],
    };
    const steps = propose(subjectWith(sent, before));
    expect('reason' in steps ? [] : steps.filter(({ waits }) => waits).map((step) => step.sql)).toEqual(
      await formOf(sql),
    );
  }
});

test('a key from an index keeps what it has besides its columns', async () => {
  const sql = 'ALTER TABLE t ADD CONSTRAINT k UNIQUE NULLS NOT DISTINCT (a) INCLUDE (b) DEFERRABLE';
  const [action] = (await statementFacts([statement(1, { sql })])).get(1)?.actions ?? [];
  expect(action).toMatchObject({
    does: 'add constraint',
    tails: { ofIndex: ' INCLUDE ("b") NULLS NOT DISTINCT', ofConstraint: ' DEFERRABLE' },
  });
  const key = { table: 't', name: 'k', columns: ['a'], isPrimary: false };
  const tails = action && 'tails' in action ? action.tails : undefined;
  expect(keyFromIndex({ ...key, tails })).toEqual([
    'CREATE UNIQUE INDEX CONCURRENTLY k ON t (a) INCLUDE ("b") NULLS NOT DISTINCT',
    'ALTER TABLE t ADD CONSTRAINT k UNIQUE USING INDEX k DEFERRABLE',
  ]);
});
