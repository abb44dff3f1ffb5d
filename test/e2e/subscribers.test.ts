import { expect, onTestFinished, test } from 'vitest';
import { literal } from '../../src/postgres/sql/quote.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { psqlCommand, rehearse } from '../helpers/rehearse.ts';
import { withDatabase } from '../helpers/target-state.ts';

const TABLES =
  'CREATE TABLE orders (id int PRIMARY KEY); CREATE TABLE stock (id int PRIMARY KEY, amount int)';
const MIGRATION = [
  'ALTER TABLE stock ALTER COLUMN amount SET DEFAULT 1',
  'ALTER TABLE orders ADD COLUMN note text',
];

test('a change that stops a subscriber is found, and one that does not is not', async () => {
  const publisher = await ownServer(18, { settings: { wal_level: 'logical' } });
  onTestFinished(() => publisher.stop());
  const subscriber = await ownServer(18);
  onTestFinished(() => subscriber.stop());
  await withClient(publisher.url, (client) => client.query('CREATE DATABASE shop'));
  const url = withDatabase(publisher.url, 'shop');
  await withClient(url, (client) => client.query(`${TABLES}; CREATE PUBLICATION goods FOR ALL TABLES`));
  await withClient(subscriber.url, async (client) => {
    await client.query(TABLES);
    await client.query(`CREATE SUBSCRIPTION goods CONNECTION ${literal(url)} PUBLICATION goods`);
  });

  // The subscriber's walsender is in the database, so that no template can be made of it.
  const command = psqlCommand(...MIGRATION.flatMap((sql) => ['-c', sql]));
  const { report } = await rehearse(url, command, { args: ['--clone', 'cluster'] });
  const found = report.hazards.filter(({ code }) => /^(?:SUBSCRIBER|PUBLICATION)_/.test(code));
  expect(found).toMatchObject([
    { code: 'SUBSCRIBER_STOPS', severity: 'error', relation: 'public.orders', statement: 2 },
  ]);
  expect(found[0]?.evidence).toContain('published by goods; logical slots of the target: goods');

  await withClient(url, async (client) => {
    for (const sql of MIGRATION) await client.query(sql);
    await client.query('INSERT INTO stock VALUES (1)');
  });
  await withClient(subscriber.url, async (client) => {
    const seen = async (sql: string) => {
      while ((await client.query(sql)).rows.length === 0);
    };
    await seen('SELECT FROM stock');
    await withClient(url, (other) => other.query('INSERT INTO orders VALUES (1)'));
    await seen('SELECT FROM pg_stat_subscription_stats WHERE apply_error_count > 0');
    expect((await client.query('SELECT FROM orders')).rows).toEqual([]);
  });
});
