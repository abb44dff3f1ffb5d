import { describe, expect, test } from 'vitest';
import { type CommandOutcome, findExitCodeHazards } from '../../../src/hazards/exit-code-checks.ts';
import type { DataSection, SchemaSection } from '../../../src/model/report.ts';
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
  sessionsOfPsql: new Set(),
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

  test('exit code 0 is an error if statements failed, whatever else was changed', () => {
    expect(codes({ statements: failing, schema: changed('public.orders') })).toEqual([
      'error ERRORS_SWALLOWED',
    ]);
    expect(codes({ statements: failing, data: rowsOf('public.orders', 1, 2) })).toEqual([
      'error ERRORS_SWALLOWED',
    ]);
    expect(codes({})).toEqual([]);
  });

  test('exit code 0 is a warning if the tool only recorded a migration as applied', () => {
    expect(codes({ data: rowsOf('public.schema_migrations', 3, 4) })).toEqual(['warning BOOKKEEPING_ONLY']);
    const both = { schema: changed('public.orders'), data: rowsOf('public.schema_migrations', 3, 4) };
    expect(codes(both)).toEqual([]);
  });

  test.each([
    [
      'a baseline',
      ['CREATE TABLE alembic_version (v text)', "INSERT INTO alembic_version VALUES ('migrations')"],
      0,
    ],
    [
      'a baseline in a schema of its own',
      ['CREATE SCHEMA IF NOT EXISTS public', 'SELECT count(*) FROM orders'],
      0,
    ],
    ['work that was done before', ['CREATE TABLE IF NOT EXISTS orders (id int) -- alembic_version'], 1],
    ['a row that was there', ["INSERT INTO orders VALUES (1, 'migrations') ON CONFLICT DO NOTHING"], 1],
  ])('the first migration of a history that is %s', async (_, texts, warnings) => {
    const [sample = mixed[0]] = mixed;
    if (!sample) throw new Error('the sample report has a statement');
    const statements = texts.map((sql, at) => {
      const tag = /^CREATE SCHEMA/.exec(sql)?.[0] ?? null;
      return { ...sample, index: at + 1, sql, tag, error: null, rows: 0, locks: [] };
    });
    const own = {
      statements,
      parsed: await statementFacts(statements),
      schema: changed('public.alembic_version'),
    };
    expect(codes({ ...own, data: rowsOf('public.alembic_version', 0, 1) })).toHaveLength(warnings);
  });

  test.each([
    [
      'a policy that is dropped and made again',
      ['DROP POLICY p ON a', 'CREATE POLICY p ON a USING (true)'],
      [],
    ],
    [
      'a policy that is only dropped',
      ['CREATE POLICY p ON a', 'DROP POLICY p ON a'],
      ['warning BOOKKEEPING_ONLY'],
    ],
    [
      'a table that was there',
      ['DROP TABLE IF EXISTS b', 'CREATE TABLE IF NOT EXISTS a (id int)'],
      ['warning BOOKKEEPING_ONLY'],
    ],
    [
      'a temporary table',
      ['DROP TABLE IF EXISTS t', 'CREATE TEMP TABLE t (id int)'],
      ['warning BOOKKEEPING_ONLY'],
    ],
    [
      'a table for a moment',
      ['DROP TABLE IF EXISTS a', 'CREATE TABLE a (id int)', 'DROP TABLE a'],
      ['warning BOOKKEEPING_ONLY'],
    ],
  ])('a schema that is as before after %s', async (_, texts, told) => {
    const [sample = mixed[0]] = mixed;
    if (!sample) throw new Error('the sample report has a statement');
    const statements = texts.map((sql, at) => {
      const tag = sql.replace('TEMP ', '').split(' ').slice(0, 2).join(' ');
      return { ...sample, index: at + 1, transaction: 1, sql, tag, error: null, rows: null, locks: [] };
    });
    const parsed = await statementFacts(statements);
    const data = rowsOf('public.schema_migrations', 3, 4);
    const ended = (outcome: 'committed' | 'rolled back') =>
      codes({
        statements,
        parsed,
        data,
        transactions: [{ transaction: 1, session: 1, startedAt: '', endedAt: null, outcome }],
      });
    expect(ended('committed')).toEqual(told);
    expect(ended('rolled back')).toContain('warning BOOKKEEPING_ONLY');
  });

  test('exit code 0 is believed if the tool had nothing to do, although it locked itself or created its own table', () => {
    expect(codes({ schema: changed('public.schema_migrations') })).toEqual([]);
    const locked = { relation: 'public.knex_migrations_lock', inserted: 0, updated: 2, deleted: 0 };
    expect(codes({ data: { tables: [], written: [locked] } })).toEqual([]);
  });
});

describe('an error that a command handled', () => {
  const [sample] = failing;

  /** Whether ERRORS_SWALLOWED is found. Each line: the transaction, the statement, and its SQLSTATE if it failed. */
  async function isSwallowed(lines: readonly (readonly [number, string, string?])[], ofPsql = false) {
    if (!sample) throw new Error('the sample report has a statement that failed');
    const statements = lines.map(([transaction, sql, sqlstate], at) => ({
      ...sample,
      index: at + 1,
      session: 1,
      transaction,
      sql,
      tag: null,
      error: sqlstate === undefined || !sample.error ? null : { ...sample.error, sqlstate, where: null },
    }));
    const rolledBack = new Set(
      lines.flatMap(([transaction, sql]) => (sql === 'ROLLBACK' ? [transaction] : [])),
    );
    const found = codes({
      statements,
      parsed: await statementFacts(statements),
      transactions: [...new Set(lines.map(([transaction]) => transaction))].map((transaction) => ({
        transaction,
        session: 1,
        startedAt: '',
        endedAt: null,
        outcome: rolledBack.has(transaction) ? 'rolled back' : 'committed',
      })),
      schema: changed('public.orders'),
      sessionsOfPsql: new Set(ofPsql ? [1] : []),
    });
    return found.includes('error ERRORS_SWALLOWED');
  }

  test('by sending the statement again is none', async () => {
    const lost = [1, 'ALTER TABLE a ADD b int', '40P01'] as const;
    expect(await isSwallowed([lost, [2, 'CREATE TABLE c (id int)']])).toBe(true);
    expect(await isSwallowed([lost, [2, 'ALTER TABLE a ADD b int;']])).toBe(false);
    const inserted = 'INSERT INTO a VALUES ($1)';
    expect(
      await isSwallowed([
        [1, inserted, '23514'],
        [2, inserted],
      ]),
    ).toBe(true);
    expect(
      await isSwallowed([
        [1, inserted, '40001'],
        [2, inserted],
      ]),
    ).toBe(false);
  });

  test('of dropping a table that was made and rolled back, to see whether DDL is transactional, is none', async () => {
    const probe = [
      [1, 'CREATE TABLE "Probe_1" (id int)'],
      [1, 'ROLLBACK'],
      [2, 'DROP TABLE "Probe_1"', '42P01'],
      [2, 'ROLLBACK'],
    ] as const;
    const work = [3, 'CREATE TABLE c (id int)'] as const;
    expect(await isSwallowed([...probe, work])).toBe(false);
    expect(await isSwallowed(probe), 'nothing follows').toBe(true);
    expect(await isSwallowed([...probe, work], true), 'psql goes on after any error').toBe(true);
    expect(await isSwallowed([[1, 'DROP TABLE c', '42P01'], work]), 'of another table').toBe(true);
  });

  test('by sending it again, but not the statements that were rolled back with it, is swallowed', async () => {
    const first = [
      [1, 'UPDATE a SET b = 1'],
      [1, 'UPDATE c SET b = 1', '40P01'],
      [1, 'ROLLBACK'],
      [2, 'UPDATE c SET b = 1'],
    ] as const;
    expect(await isSwallowed(first)).toBe(true);
    expect(await isSwallowed([...first, [2, 'UPDATE a SET b = 1']])).toBe(false);
  });

  test('by going back to its savepoint is none, but psql makes one of its own', async () => {
    const tried = (savepoint: string, ofPsql = false) =>
      isSwallowed(
        [
          [1, `SAVEPOINT ${savepoint}`],
          [1, 'ALTER TABLE a ADD b int', '42701'],
          [1, `ROLLBACK TO SAVEPOINT ${savepoint}`],
          [1, 'CREATE TABLE c (id int)'],
        ],
        ofPsql,
      );
    expect(await tried('sqlalchemy_1')).toBe(false);
    expect(await tried('pg_psql_temporary_savepoint', true)).toBe(true);
  });

  test('of asking for what is not there yet is none if the same session goes on to write; psql always goes on', async () => {
    const asked = [
      [1, 'SELECT version_id FROM goose_db_version', '42P01'],
      [2, 'CREATE TABLE goose_db_version (id int)'],
    ] as const;
    expect(await isSwallowed(asked)).toBe(false);
    expect(await isSwallowed(asked, true)).toBe(false);
    const other = [
      [1, 'SELECT count(*) FROM ordres', '42P01'],
      [2, 'CREATE TABLE c (id int)'],
    ] as const;
    expect(await isSwallowed(other)).toBe(false);
    expect(await isSwallowed(other, true)).toBe(true);
    expect(await isSwallowed([other[0], [2, 'SELECT 1']])).toBe(true);
  });

  test('of making what is there already is none if the same session goes on to write; psql always goes on', async () => {
    const made = [
      [1, 'CREATE TABLE migrations (id int)', '42P07'],
      [2, 'INSERT INTO migrations VALUES (1)'],
    ] as const;
    expect(await isSwallowed(made)).toBe(false);
    expect(await isSwallowed(made, true)).toBe(true);
    expect(await isSwallowed([[1, 'ALTER TABLE a ADD b int', '55P03'], made[1]])).toBe(true);
  });
});

describe('a transaction that is left open', () => {
  const sample = mixed.find(({ error }) => error === null);

  /** Whether statements, with the tags that the server answers, count as work that is lost. */
  async function isLost(...texts: readonly (readonly [sql: string, tag: string])[]): Promise<boolean> {
    if (!sample) throw new Error('the sample report has a statement that succeeded');
    const statements = [['BEGIN', 'BEGIN'] as const, ...texts].map(([sql, tag], at) => ({
      ...sample,
      index: at + 1,
      transaction: 1,
      sql,
      tag,
      locks: [],
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
      { code: 'HALF_APPLIED', evidence: 'It changed public.orders.', statement: failing[0]?.index },
    ]);
    expect(codes({ schema: changed('public.orders') }, null)).toEqual(['error HALF_APPLIED']);
  });

  test('a part is named once: a column stands for its table', () => {
    const found = findExitCodeHazards(
      account({ schema: changed('public.orders.total'), data: rowsOf('public.orders', 1, 2) }, 1),
    );
    expect(found).toMatchObject([{ evidence: 'It changed public.orders.total.' }]);
  });

  test("a failure after which only the tool's record is committed is no hazard", () => {
    expect(codes({ statements: failing }, 1)).toEqual([]);
    expect(codes({ data: rowsOf('public._prisma_migrations', 1, 2) }, 1)).toEqual([]);
  });

  test('a failure whose writes were rolled back is no hazard', () => {
    const written = { relation: 'public.orders', inserted: 9, updated: 0, deleted: 0 };
    const codesOf = (...rows: DataSection['written']) => codes({ data: { tables: [], written: rows } }, 1);
    expect(codesOf()).toEqual([]);
    expect(codesOf({ ...written, atMost: true })).toEqual([]);
    expect(codesOf(written)).toEqual(['error HALF_APPLIED']);
  });
});

test('the exit code is not checked if schema or data could not be compared', () => {
  expect(codes({ schema: null, statements: failing })).toEqual([]);
  expect(codes({ data: null, statements: failing })).toEqual([]);
});
