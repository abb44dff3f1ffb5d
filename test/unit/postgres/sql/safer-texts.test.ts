import { expect, test } from 'vitest';
import { statementFacts } from '../../../../src/observe/statement-facts.ts';
import { keyFromIndex } from '../../../../src/postgres/sql/safer-constraints.ts';
import { alterTable } from '../../../../src/propose/alter-table.ts';
import { buildConcurrently, dropConcurrently } from '../../../../src/propose/concurrent-forms.ts';
import { readStatement, subjectWith } from '../../../../src/propose/subject.ts';
import { statement } from '../../../helpers/facts.ts';

const textsOf = async (sql: string) => (await statementFacts([statement(1, { sql })])).get(1)?.saferTexts;
const formOf = async (sql: string) => (await textsOf(sql))?.concurrent;

test.each([
  ['create index i on t (a);', ['create index CONCURRENTLY i on t (a)']],
  ['CREATE UNIQUE INDEX "index" -- fast\n ON t (a)', ['CREATE UNIQUE INDEX CONCURRENTLY "index" ON t (a)']],
  [
    'DROP INDEX IF EXISTS a, s.b RESTRICT',
    ['DROP INDEX CONCURRENTLY IF EXISTS a', 'DROP INDEX CONCURRENTLY IF EXISTS s.b RESTRICT'],
  ],
  ['REINDEX (VERBOSE) TABLE s.t', ['REINDEX (VERBOSE) TABLE CONCURRENTLY s.t']],
  ['REFRESH MATERIALIZED VIEW v', ['REFRESH MATERIALIZED VIEW CONCURRENTLY v']],
  ['REFRESH MATERIALIZED VIEW v WITH NO DATA', undefined],
  ['CREATE INDEX CONCURRENTLY i ON t (a)', undefined],
  ['DROP INDEX a CASCADE', undefined],
  ['DROP TABLE t', undefined],
  ['REINDEX SYSTEM shop', undefined],
])('%s has a concurrent form: %j', async (sql, form) => {
  expect(await formOf(sql)).toEqual(form);
});

test.each([
  [
    "ALTER TABLE ONLY t -- all\n ADD CONSTRAINT c CHECK (a <> 'x  y');",
    "ALTER TABLE ONLY t ADD CONSTRAINT c CHECK (a <> 'x  y') NOT VALID",
  ],
  [
    'ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u DEFERRABLE',
    'ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u DEFERRABLE NOT VALID',
  ],
  ['ALTER DOMAIN d ADD CHECK (value > 0)', 'ALTER DOMAIN d ADD CHECK (value > 0) NOT VALID'],
  ['ALTER DOMAIN d SET NOT NULL', undefined],
  ['ALTER TABLE t ADD CHECK (a > 0)', undefined],
  ['ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0) NOT VALID', undefined],
  ['ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0), ADD COLUMN b int', undefined],
  ['ALTER TABLE t ADD CONSTRAINT c UNIQUE (a)', undefined],
])('%s without a check of the rows: %j', async (sql, text) => {
  expect((await textsOf(sql))?.['not valid']).toEqual(text === undefined ? undefined : [text]);
});

test('CREATE INDEX has a form for the parent alone', async () => {
  expect((await textsOf('CREATE INDEX "goes on" ON t (a)'))?.['on only']).toEqual([
    'CREATE INDEX "goes on" ON ONLY t (a)',
  ]);
  expect((await textsOf('CREATE INDEX i ON ONLY t (a)'))?.['on only']).toBeUndefined();
});

test('the advice shows what the proposal sends', async () => {
  const before = { relations: new Map(), columns: new Map() };
  for (const [sql, propose, form] of [
    ['CREATE INDEX i ON orders (status)', buildConcurrently, 'concurrent'],
    ['DROP INDEX i, j', dropConcurrently, 'concurrent'],
    ['ALTER TABLE ONLY orders ADD CONSTRAINT c CHECK (total > 0)', alterTable, 'not valid'],
  ] as const) {
    const read = await readStatement(sql, []);
    if (!read) throw new Error(sql);
    const sent = {
      ...read,
      codes: new Set(['CHECK_SCANS_TABLE']),
      rows: 0,
      relation: () => 'public.orders',
      newlyNotNull: () => [],
      rewrites: () => true,
    };
    const steps = propose(subjectWith(sent, before));
    const sends = 'reason' in steps ? [] : steps.map((step) => step.sql);
    expect(sends).toEqual(expect.arrayContaining([...((await textsOf(sql))?.[form] ?? ['a form'])]));
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
