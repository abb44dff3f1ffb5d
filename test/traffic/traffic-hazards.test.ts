import { expect, onTestFinished, test } from 'vitest';
import { safemigrate } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { psqlCommand } from '../helpers/rehearse.ts';
import { withDatabase } from '../helpers/target-state.ts';

const PARTITIONS = 300;
const VISITS = 300;

const SHOP = `
  CREATE TABLE orders (id int PRIMARY KEY, paid boolean); INSERT INTO orders SELECT n, false FROM generate_series(1, 2000) n;
  CREATE TABLE stock (id int PRIMARY KEY, amount int); INSERT INTO stock SELECT n, 1 FROM generate_series(1, 2000) n;
  CREATE TABLE quiet (id int PRIMARY KEY); INSERT INTO quiet SELECT generate_series(1, 2000);
  CREATE TABLE days (day int) PARTITION BY LIST (day);
  ANALYZE orders, stock, quiet`;

/** In a transaction each: from 19 on the lock table has no more room than is said. */
const DAYS = `
  DO $$ BEGIN FOR n IN 1..${PARTITIONS} LOOP
    EXECUTE format('CREATE TABLE day%s PARTITION OF days FOR VALUES IN (%s)', n, n);
    COMMIT;
  END LOOP; END $$`;

const MIGRATION = [
  'BEGIN; UPDATE orders SET paid = true; SELECT pg_sleep(1); COMMIT',
  'BEGIN; UPDATE quiet SET id = -id; SELECT pg_sleep(1); COMMIT',
  'BEGIN; ALTER TABLE orders ADD note text; ALTER TABLE stock ADD note text; COMMIT',
  'BEGIN; ALTER TABLE quiet ADD note text; ALTER TABLE stock ADD more text; COMMIT',
  'ALTER TABLE days ADD note int',
];

test('what only others who are at work make dangerous is found, and of nothing else', async () => {
  const settings = { max_locks_per_transaction: '10', max_connections: '20', autovacuum: 'off' };
  const server = await ownServer(18, { settings });
  onTestFinished(() => server.stop());
  await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
  const url = withDatabase(server.url, 'shop');
  await withClient(url, async (client) => {
    for (const sql of [SHOP, DAYS]) await client.query(sql);
  });
  // What others do while the clone is rehearsed on: the server counts it when they leave.
  const visit = () =>
    withClient(url, async (client) => {
      for (let n = 1; n <= VISITS; n++)
        await client.query(
          `UPDATE orders SET paid = paid WHERE id = ${n}; UPDATE stock SET amount = 2 WHERE id = ${n}`,
        );
    });
  const command = [
    'sh',
    '-c',
    'echo waiting; read go; "$@"',
    'sh',
    ...psqlCommand(...MIGRATION.flatMap((sql) => ['-c', sql])),
  ];
  const { stdout, stderr } = await safemigrate(
    ['--format', 'json', '--clone', 'template', '--', ...command],
    {
      env: { DATABASE_URL: url },
      typed: [[/waiting/, async () => visit().then(() => 'go\n')]],
    },
  );
  expect(stdout, stderr).not.toBe('');
  const { hazards, statements } = readReport(stdout);
  const found = hazards
    .filter(({ code }) => ['ROW_CONFLICTS', 'DEADLOCK_RISK', 'LOCK_TABLE_FULL'].includes(code))
    .map(({ code, severity, relation, statement }) => {
      const sql = statements.find(({ index }) => index === statement)?.sql ?? '';
      return [code, severity, relation, sql.split(' ').slice(0, 3).join(' ')];
    });
  expect(found.sort()).toEqual([
    ['DEADLOCK_RISK', expect.stringMatching(/^(?:warning|error)$/), 'public.stock', 'ALTER TABLE stock'],
    ['LOCK_TABLE_FULL', 'warning', null, 'ALTER TABLE days'],
    ['ROW_CONFLICTS', expect.stringMatching(/^(?:warning|error)$/), 'public.orders', 'UPDATE orders SET'],
  ]);
});
