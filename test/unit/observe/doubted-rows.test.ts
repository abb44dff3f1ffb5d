import { expect, test } from 'vitest';
import type { DataSection, StatementSection } from '../../../src/model/report.ts';
import { doubtedRows } from '../../../src/observe/doubted-rows.ts';
import { statementFacts } from '../../../src/observe/statement-facts.ts';
import { sampleReport } from '../../helpers/reports.ts';

const [sample] = sampleReport().statements;

/** The reason to doubt the rows of these statements, if the server counted so many rows in `public.t`. */
async function doubt(counted: number, ...sent: (Partial<StatementSection> & { sql: string })[]) {
  const statements = sent.map((each, at) => ({
    ...(sample as StatementSection),
    index: at + 1,
    error: null,
    transaction: 1,
    ...each,
  }));
  const transactions = [
    { transaction: 1, session: 1, startedAt: '', endedAt: '', outcome: 'committed' as const },
    { transaction: 2, session: 1, startedAt: '', endedAt: '', outcome: 'prepared' as const },
  ];
  const parsed = await statementFacts(statements);
  const written = [{ relation: 'public.t', inserted: counted, updated: 0, deleted: 0 }];
  const data = { tables: [], written } as unknown as DataSection;
  return doubtedRows({ statements, transactions, parsed }, data)[0]?.reason;
}

const insert = (rows: number, more: Partial<StatementSection> = {}) => ({
  sql: 'insert into t select 1',
  tag: 'INSERT',
  rows,
  ...more,
});

test('rows are doubted if the server counted fewer in the table', async () => {
  expect(await doubt(1000, insert(1000), insert(1000))).toBe(
    'the statements report 2,000 rows of public.t, but the server counted 1,000 that were written there',
  );
});

test('rows are not doubted if the server counted more, or what is left out explains the difference', async () => {
  expect(await doubt(5000, insert(1000), insert(1000))).toBeUndefined();
  expect(await doubt(1000, insert(1000), insert(1000, { rolledBack: true }))).toBeUndefined();
  expect(await doubt(1000, insert(1000), insert(1000, { transaction: 2 }))).toBeUndefined();
  expect(
    await doubt(0, insert(1000), { sql: 'truncate t', tag: 'TRUNCATE TABLE', rows: null }),
  ).toBeUndefined();
  const temporary = { sql: 'create temp table t (id int)', tag: 'CREATE TABLE', rows: null };
  expect(await doubt(1, temporary, insert(1000))).toBeUndefined();
});
