import { expect, test } from 'vitest';
import { findHazards } from '../../../src/hazards/catalogue.ts';
import { statementFacts } from '../../../src/observe/statement-facts.ts';
import { facts, relation, serverError, statement } from '../../helpers/facts.ts';

/** Code and fix of what is told of a statement that fails. */
async function told(sql: string, { sqlstate, ...more }: { sqlstate: string; hint?: string }) {
  const statements = [statement(1, { sql, error: serverError(sqlstate, more) })];
  return findHazards(
    facts({
      command: { exitCode: 1 },
      statements,
      parsed: await statementFacts(statements),
      catalogue: { relations: new Map([['public.orders', relation(8192, 10)]]) },
    }),
  )
    .filter(({ code }) => code === 'DEFAULT_NOT_CONVERTED' || code === 'UNIQUE_OVER_DUPLICATES')
    .map(({ message, advice }) => [message, advice.split('\n').at(-1)]);
}

const DEFAULT = 'the default of public.orders.status cannot be converted to its new type';
const ALTER = 'ALTER TABLE public.orders ALTER COLUMN status';

test.each([
  ['', `${ALTER} DROP DEFAULT, ALTER COLUMN status TYPE state, ALTER COLUMN status SET DEFAULT …;`],
  [
    ' USING status::state',
    `${ALTER} DROP DEFAULT, ALTER COLUMN status TYPE state USING status::state, ALTER COLUMN status SET DEFAULT …;`,
  ],
  [
    ' USING lower(status)::state',
    `${ALTER} DROP DEFAULT, ALTER COLUMN status TYPE state USING …, ALTER COLUMN status SET DEFAULT …;`,
  ],
])('a default that is refused in TYPE state%s is taken off first', async (using, fix) => {
  const sql = `ALTER TABLE orders ALTER status TYPE state${using}`;
  expect(await told(sql, { sqlstate: '42804' })).toEqual([[DEFAULT, fix]]);
});

test('a default is not blamed if the server has a hint, which is about the values, or no type is changed', async () => {
  const sql = 'ALTER TABLE orders ALTER status TYPE state';
  expect(await told(sql, { sqlstate: '42804', hint: 'Specify USING.' })).toEqual([]);
  expect(await told(sql, { sqlstate: '22P02' })).toEqual([]);
  expect(await told('UPDATE orders SET status = 1', { sqlstate: '42804' })).toEqual([]);
});

test('of several columns none is named whose default may be the one', async () => {
  const sql = 'ALTER TABLE orders ALTER status TYPE state, ALTER total TYPE bigint';
  const [[message] = []] = await told(sql, { sqlstate: '42804' });
  expect(message).toBe('the default of a column of public.orders cannot be converted to its new type');
});

test.each([
  ['UNIQUE INDEX ON orders (status, "E mail")', ' of (status, "E mail")', 'status, "E mail"', ''],
  ['UNIQUE INDEX ON orders (status) WHERE total > 0', ' of (status)', 'status', ' WHERE …'],
  ['UNIQUE INDEX ON orders (lower(status))', '', '…', ''],
])('duplicates that CREATE %s finds are looked for by its columns', async (what, of, key, where) => {
  expect(await told(`CREATE ${what}`, { sqlstate: '23505' })).toEqual([
    [
      `public.orders has duplicates${of}`,
      `SELECT ${key}, count(*) FROM public.orders${where} GROUP BY ${key} HAVING count(*) > 1;`,
    ],
  ]);
});
