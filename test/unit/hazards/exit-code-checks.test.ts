import { describe, expect, test } from 'vitest';
import { type CommandOutcome, findExitCodeHazards } from '../../../src/hazards/exit-code-checks.ts';
import type { SchemaSection } from '../../../src/model/report.ts';
import { statementFacts } from '../../../src/observe/statement-facts.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

const { statements: mixed } = sampleReports['failed-command'] ?? sampleReport();
const failing = mixed.filter(({ error }) => error !== null);
const unchanged = { changes: [], renames: [], before: 'a', after: 'a' };
const changed = (object: string): Pick<SchemaSection, 'changes' | 'renames' | 'before' | 'after'> => ({
  ...unchanged,
  changes: [{ verb: 'create', kind: 'table', object, sql: '', dataLoss: false }],
  after: 'b',
});
const rowsOf = (relation: string, rowsBefore: number, rowsAfter: number) => ({
  tables: [{ relation, rowsBefore, rowsAfter, exact: true, bytesBefore: 1, bytesAfter: 1, rewritten: false }],
  written: [],
});

const account = (more: Partial<CommandOutcome>, exitCode: number | null = 0): CommandOutcome => ({
  command: { exitCode, reachedClone: true },
  statements: [],
  transactions: [],
  parsed: new Map(),
  schema: unchanged,
  data: { tables: [], written: [] },
  ...more,
});
const codes = (more: Partial<CommandOutcome>, exitCode: number | null = 0) =>
  findExitCodeHazards(account(more, exitCode)).map(({ code, severity }) => `${severity} ${code}`);

describe('exit code 0', () => {
  test('exit code 0 is an error if statements failed and nothing changed', () => {
    expect(codes({ statements: failing })).toEqual(['error ERRORS_SWALLOWED']);
  });

  test('exit code 0 is believed if something changed, or nothing failed', () => {
    expect(codes({ statements: failing, schema: changed('public.orders') })).toEqual([]);
    expect(codes({ statements: failing, data: rowsOf('public.orders', 1, 2) })).toEqual([]);
    expect(codes({})).toEqual([]);
  });

  test('exit code 0 is a warning if the tool only recorded a migration as applied', () => {
    expect(codes({ data: rowsOf('public.schema_migrations', 3, 4) })).toEqual(['warning BOOKKEEPING_ONLY']);
    const both = { schema: changed('public.orders'), data: rowsOf('public.schema_migrations', 3, 4) };
    expect(codes(both)).toEqual([]);
  });

  test('exit code 0 is believed if the tool had nothing to do, although it locked itself or created its own table', () => {
    expect(codes({ schema: changed('public.schema_migrations') })).toEqual([]);
    const locked = { relation: 'public.knex_migrations_lock', inserted: 0, updated: 2, deleted: 0 };
    expect(codes({ data: { tables: [], written: [locked] } })).toEqual([]);
  });
});

describe('a transaction that is left open', () => {
  const sample = mixed.find(({ error }) => error === null);

  /** Whether statements, with the tags that the server answers, count as work that is lost. */
  async function isLost(...texts: readonly (readonly [sql: string, tag: string])[]): Promise<boolean> {
    if (!sample) throw new Error('the sample report has a statement that succeeded');
    const statements = [['BEGIN', 'BEGIN'] as const, ...texts].map(([sql, tag], at) => ({
      ...{ ...sample, index: at + 1, transaction: 1, sql, tag, locks: [] },
    }));
    const transaction = { transaction: 1, session: 1, startedAt: '', endedAt: null };
    const found = codes({
      statements,
      parsed: await statementFacts(statements),
      transactions: [{ ...transaction, outcome: 'rolled back' }],
    });
    return found.includes('error NEVER_COMMITTED');
  }

  test.each([
    ['INSERT INTO t VALUES (1)', 'INSERT 0 1'],
    ['CREATE TABLE t (id int)', 'CREATE TABLE'],
    ['CREATE TABLE t AS SELECT 1', 'SELECT 1'],
    ['SELECT 1 AS one INTO t', 'SELECT 1'],
    ['WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone', 'SELECT 1'],
    ['COPY t FROM STDIN', 'COPY 1'],
    ['EXECUTE p', 'DELETE 1'],
    ['DO $$ begin perform f(); end $$', 'DO'],
  ])('a transaction that is left open loses %s', async (sql, tag) => {
    expect(await isLost([sql, tag])).toBe(true);
    expect(await isLost([sql, tag], ['ROLLBACK', 'ROLLBACK'])).toBe(false);
    expect(await isLost([sql, tag], ['SAVEPOINT s', 'SAVEPOINT'], ['ROLLBACK TO s', 'ROLLBACK'])).toBe(true);
  });

  test.each([
    ['SELECT f(1)', 'SELECT 1'],
    ['COPY (SELECT 1) TO STDOUT', 'COPY 1'],
    ['COPY t TO STDOUT', 'COPY 1'],
    ['EXECUTE p', 'SELECT 1'],
    ['EXPLAIN SELECT 1', 'EXPLAIN'],
    ['LOCK TABLE t', 'LOCK TABLE'],
    ["SET lock_timeout = '5s'", 'SET'],
    ['FETCH 10 FROM c', 'FETCH 10'],
  ])('a transaction that is left open loses nothing by %s', async (sql, tag) => {
    expect(await isLost([sql, tag])).toBe(false);
  });
});

describe('a failure', () => {
  test('a failure after which a part is committed is an error that names the part', () => {
    const found = findExitCodeHazards(account({ schema: changed('public.orders'), statements: failing }, 1));
    expect(found).toMatchObject([
      { code: 'HALF_APPLIED', evidence: 'Committed: public.orders.', statement: failing[0]?.index },
    ]);
    expect(codes({ schema: changed('public.orders') }, null)).toEqual(['error HALF_APPLIED']);
  });

  test("a failure after which only the tool's record is committed is no hazard", () => {
    expect(codes({ statements: failing }, 1)).toEqual([]);
    expect(codes({ data: rowsOf('public._prisma_migrations', 1, 2) }, 1)).toEqual([]);
  });

  test('a failure whose writes were rolled back is no hazard', () => {
    const written = {
      tables: [],
      written: [{ relation: 'public.orders', inserted: 9, updated: 0, deleted: 0 }],
    };
    const transaction = { transaction: 1, session: 1, startedAt: '', endedAt: null };
    const codesWhen = (outcome: 'committed' | 'rolled back') =>
      codes({ data: written, transactions: [{ ...transaction, outcome }] }, 1);
    expect(codesWhen('rolled back')).toEqual([]);
    expect(codesWhen('committed')).toEqual(['error HALF_APPLIED']);
  });
});

test('the exit code is not checked if schema or data could not be compared', () => {
  expect(codes({ schema: null, statements: failing })).toEqual([]);
  expect(codes({ data: null, statements: failing })).toEqual([]);
});
