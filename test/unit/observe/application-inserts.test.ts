import { expect, test } from 'vitest';
import { applicationInserts } from '../../../src/observe/probes/application-inserts.ts';

const sent = (sql: string, callsPerSecond: number | null = 1) => ({ sql, calls: 1, callsPerSecond });

test('INSERTs with the same columns are one, with the calls of all', async () => {
  const found = await applicationInserts([
    sent('INSERT INTO orders (b, a) VALUES ($1, $2)', 3),
    sent('insert into orders (a, b) select $1, $2 on conflict do nothing', 2),
    sent('INSERT INTO app.orders (a, b) VALUES ($1, $2)', null),
    sent('SELECT a FROM orders'),
  ]);
  expect(found).toEqual([
    { schema: null, table: 'orders', columns: ['a', 'b'], count: 2, callsPerSecond: 5 },
    { schema: 'app', table: 'orders', columns: ['a', 'b'], count: 2, callsPerSecond: null },
  ]);
});

test('without names of columns the number of values counts, as far as it is known', async () => {
  const found = await applicationInserts([
    sent('INSERT INTO orders VALUES ($1, $2)'),
    sent('INSERT INTO orders SELECT * FROM old'),
    sent('INSERT INTO orders DEFAULT VALUES'),
    sent('WITH made AS (INSERT INTO lines (a) VALUES ($1) RETURNING *) SELECT * FROM made'),
  ]);
  expect(found).toEqual([
    { schema: null, table: 'orders', columns: null, count: 2, callsPerSecond: 1 },
    { schema: null, table: 'lines', columns: ['a'], count: 1, callsPerSecond: 1 },
  ]);
});
