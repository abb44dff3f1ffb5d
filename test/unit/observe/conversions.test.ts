import { describe, expect, test } from 'vitest';
import type { StatementSection, TransactionSection } from '../../../src/model/report.ts';
import { conversionOf } from '../../../src/observe/lost-data.ts';
import { statementFacts } from '../../../src/observe/statement-facts.ts';
import type { LockMode } from '../../../src/postgres/lock-modes.ts';
import { statement } from '../../helpers/facts.ts';

const PHONE = { object: 'public.users.phone', from: 'character varying(20)', to: 'character varying(10)' };
const locks = (...relations: string[]) =>
  relations.map((relation): [string, LockMode, number] => [relation, 'ACCESS EXCLUSIVE', 1]);
const onUsers = { locks: locks('public.users') };

async function told(statements: StatementSection[], transactions: TransactionSection[] = []) {
  return conversionOf(PHONE, { statements, transactions, parsed: await statementFacts(statements) });
}

describe('how values came into a new type', () => {
  test.each([
    ['varchar(10)', 'assignment'],
    ['varchar(10) USING phone', 'assignment'],
    ['varchar(10) USING phone::varchar(10)', 'cast'],
    ['varchar(10) USING CAST(users.phone AS varchar(10))', 'cast'],
    ['varchar(10) USING phone::varchar(5)', 'expression'],
    ['varchar(10) USING phone::text::varchar(10)', 'expression'],
    ['varchar(10) USING other::varchar(10)', 'expression'],
    ['varchar(10) USING left(phone, 10)', 'expression'],
  ])('by %s is %s', async (type, conversion) => {
    expect(
      await told([statement(1, { sql: `ALTER TABLE users ALTER phone TYPE ${type}`, ...onUsers })]),
    ).toBe(conversion);
  });

  const plain = 'ALTER TABLE users ALTER phone TYPE varchar(10)';

  test('is told where an earlier statement of the transaction has locked the table', async () => {
    const lock = statement(1, { sql: 'LOCK TABLE users', transaction: 1, explicit: true, ...onUsers });
    expect(await told([lock, statement(2, { sql: plain, transaction: 1, locks: [] })])).toBe('assignment');
    expect(await told([lock, statement(2, { sql: plain, transaction: 2, locks: [] })])).toBe('expression');
  });

  test('is not that of a column of the same name in another table of the transaction', async () => {
    const other = 'ALTER TABLE clients ALTER phone TYPE varchar(10) USING left(phone, 10)';
    const statements = [
      statement(1, { sql: plain, transaction: 1, ...onUsers }),
      statement(2, { sql: other, transaction: 1, locks: locks('public.clients') }),
    ];
    expect(await told(statements)).toBe('assignment');
  });

  test('of a partition is that of the table that it belongs to', async () => {
    const sql = 'ALTER TABLE people ALTER phone TYPE varchar(10)';
    expect(await told([statement(1, { sql, locks: locks('public.people', 'public.users') })])).toBe(
      'assignment',
    );
  });

  test('may be anything where two statements changed it, or none is known', async () => {
    expect(
      await told([1, 2].map((index) => statement(index, { sql: plain, transaction: index, ...onUsers }))),
    ).toBe('expression');
    expect(await told([statement(1, { sql: 'DO $$ BEGIN END $$', ...onUsers })])).toBe('expression');
    expect(await told([statement(1, { sql: plain })])).toBe('expression');
  });

  test('goes by what stayed', async () => {
    const times = { session: 1, startedAt: '2026-11-21T00:00:00Z', endedAt: null };
    const using = statement(1, { sql: `${plain} USING left(phone, 10)`, transaction: 1, ...onUsers });
    const again = statement(2, { sql: plain, transaction: 2, ...onUsers });
    expect(await told([using, again], [{ transaction: 1, outcome: 'rolled back', ...times }])).toBe(
      'assignment',
    );
  });
});
