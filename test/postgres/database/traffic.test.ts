import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { readTraffic } from '../../../src/database/read-traffic.ts';
import { type TrafficReading, trafficBetween } from '../../../src/database/traffic.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { withClient } from '../../helpers/client.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../../helpers/database.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { VERSIONS } from '../../helpers/servers.ts';

const SCHEMA = `
  CREATE TABLE orders (id int PRIMARY KEY, note text);
  CREATE TABLE "Quiet" (id int);
  CREATE TABLE events (id int) PARTITION BY RANGE (id);
  CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (100)`;

async function readingOf(url: string): Promise<TrafficReading> {
  const session = await openSession(parseSettings(url, readEnvironment({}, '.')), {
    purpose: 'watch',
    readOnly: true,
  });
  try {
    return await readTraffic(session);
  } finally {
    await session.close();
  }
}

/** Statistics of a session that has ended arrive a moment later. */
async function readingWhere(url: string, arrived: (reading: TrafficReading) => boolean) {
  return expect
    .poll(() => readingOf(url), { timeout: 60_000 })
    .toSatisfy(arrived)
    .then(() => readingOf(url));
}

describe.each(VERSIONS)('on %d', (version) => {
  let target: TemporaryDatabase;
  beforeAll(async () => {
    target = await temporaryDatabase(version, { sql: SCHEMA });
  });

  test('reads and writes of each relation are those that took place between two readings', async () => {
    // The key's index was built by one scan.
    const first = await readingWhere(
      target.url,
      ({ relations }) => relations.get('public.orders')?.scans === 1,
    );
    await withClient(target.url, async (client) => {
      await client.query("INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 20) n");
      await client.query("UPDATE orders SET note = 'y' WHERE id <= 5");
      await client.query('SET enable_seqscan = off');
      for (let id = 1; id <= 3; id++) await client.query('SELECT * FROM orders WHERE id = $1', [id]);
      await client.query('INSERT INTO events VALUES (1), (2)');
      await client.query('DELETE FROM events WHERE id = 1');
    });
    const second = await readingWhere(
      target.url,
      ({ relations }) => relations.get('public.events_1')?.deleted === 1,
    );
    const { relations, transactionsPerSecond, sampledMs, tableOfIndex, indexScans } = trafficBetween(
      first,
      second,
    );
    const seconds = sampledMs / 1000;
    const orders = relations.get('public.orders');
    expect((orders?.writesPerSecond ?? 0) * seconds).toBeCloseTo(25);
    expect((orders?.insertsPerSecond ?? 0) * seconds).toBeCloseTo(20);
    expect((orders?.readsPerSecond ?? 0) * seconds).toBeCloseTo(4);
    expect((relations.get('public.events')?.writesPerSecond ?? 0) * seconds).toBeCloseTo(3);
    expect(relations.get('public."Quiet"')).toEqual({
      readsPerSecond: 0,
      insertsPerSecond: 0,
      writesPerSecond: 0,
    });
    expect((transactionsPerSecond ?? 0) * seconds).toBeGreaterThanOrEqual(8);
    expect(tableOfIndex.get('public.orders_pkey')).toBe('public.orders');
    expect(indexScans?.get('public.orders_pkey')).toBeGreaterThanOrEqual(3);
  });

  test('the oldest open transaction is seen, and what it holds, with the application but without a process', async () => {
    await withClient(target.url, async (client) => {
      await client.query("SET application_name = 'nightly report'");
      await client.query('BEGIN');
      await client.query('SELECT count(*) FROM orders');
      const { oldestTransaction, holders, sessions } = await readingOf(target.url);
      expect(oldestTransaction).toMatchObject({
        application: 'nightly report',
        state: 'idle in transaction',
      });
      expect(oldestTransaction?.ageMs).toBeGreaterThan(0);
      const held = holders.filter(({ relation }) => relation === 'public.orders');
      expect(held).toMatchObject([{ mode: 'AccessShareLock', application: 'nightly report' }]);
      expect(sessions.open).toBeGreaterThanOrEqual(1);
      expect(sessions.max).toBeGreaterThan(sessions.reserved);
      await client.query('ROLLBACK');
    });
  });

  test('sessions of safemigrate itself are not counted', async () => {
    const { holders, oldestTransaction } = await readingOf(target.url);
    expect(holders).toEqual([]);
    expect(oldestTransaction).toBeNull();
  });

  test('servers before version 19 count no waits for locks', async () => {
    const { lockWaits } = await readingOf(target.url);
    if (version < 19) expect(lockWaits).toBeNull();
    else expect(lockWaits?.longerThanMs).toBe(1000);
  });
});

/** A session that waits for a lock has done so for longer than the server's deadlock_timeout. */
const WAITS_LONG = `SELECT FROM pg_locks WHERE NOT granted AND clock_timestamp() - waitstart > interval '100 ms'`;

test('a server of version 19 counts waits for locks by kind, if they are longer than deadlock_timeout', async () => {
  const server = await ownServer(19, { settings: { deadlock_timeout: '20ms' } });
  onTestFinished(() => server.stop());
  expect((await readingOf(server.url)).lockWaits).toMatchObject({ longerThanMs: 20, kinds: [] });
  await withClient(server.url, async (holder) => {
    await holder.query('CREATE TABLE orders (id int)');
    await holder.query('BEGIN; LOCK TABLE orders');
    const waiting = withClient(server.url, (waiter) => waiter.query('SELECT FROM orders'));
    await expect.poll(async () => (await holder.query(WAITS_LONG)).rowCount).toBe(1);
    await holder.query('COMMIT');
    await waiting;
  });
  const { lockWaits } = await readingWhere(server.url, (reading) => reading.lockWaits?.kinds.length !== 0);
  expect(lockWaits?.kinds).toEqual([{ kind: 'relation', waits: 1, waitedMs: expect.any(Number) }]);
  expect(lockWaits?.kinds[0]?.waitedMs).toBeGreaterThan(100);
  expect(lockWaits?.overMs).toBeGreaterThan(lockWaits?.kinds[0]?.waitedMs ?? 0);
});

describe('on a server of its own', () => {
  let server: Server;
  beforeAll(async () => {
    server = await ownServer(18, { settings: { max_prepared_transactions: '5', wal_level: 'logical' } });
    await withClient(server.url, (client) => client.query('CREATE TABLE orders (id int)'));
  });
  afterAll(() => server.stop());

  test('a prepared transaction is counted, and holds what it locked', async () => {
    await withClient(server.url, async (client) => {
      await client.query("BEGIN; LOCK TABLE orders IN SHARE MODE; PREPARE TRANSACTION 'forgotten'");
      const { preparedTransactions, holders } = await readingOf(server.url);
      expect(preparedTransactions).toMatchObject({ count: 1 });
      expect(preparedTransactions.oldestMs).toBeGreaterThanOrEqual(0);
      expect(holders).toMatchObject([
        { relation: 'public.orders', mode: 'ShareLock', state: 'prepared', application: null },
      ]);
      await client.query("ROLLBACK PREPARED 'forgotten'");
    });
  });

  test('a slot that nobody reads from is named', async () => {
    await withClient(server.url, async (client) => {
      await client.query("SELECT pg_create_physical_replication_slot('forgotten', true)");
      expect((await readingOf(server.url)).inactiveSlots).toEqual(['forgotten']);
      await client.query("SELECT pg_drop_replication_slot('forgotten')");
    });
  });

  test('a role that may see nothing of others gets to know how many it does not see', async () => {
    await withClient(server.url, async (client) => {
      await client.query("CREATE ROLE nosy LOGIN PASSWORD 'nosy'");
      await client.query('BEGIN; SELECT 1 FROM orders');
      const url = new URL(server.url);
      url.username = 'nosy';
      url.password = 'nosy';
      const { hiddenSessions, oldestTransaction, holders, sessions } = await readingOf(url.href);
      expect(hiddenSessions).toBe(1);
      expect(sessions.open).toBe(1);
      expect(oldestTransaction).toBeNull();
      expect(holders).toEqual([]);
      await client.query('ROLLBACK; DROP ROLE nosy');
    });
  });
});

test('the lock table of PostgreSQL 19 has room for as many locks as is said', {
  timeout: 180_000,
}, async () => {
  const settings = { max_locks_per_transaction: '10', max_connections: '20' };
  const server = await ownServer(19, { settings });
  try {
    const { lockTable } = await readingOf(server.url);
    const capacity = lockTable?.capacity ?? 0;
    const take = (count: number) =>
      withClient(server.url, (client) =>
        client.query(`SELECT count(pg_advisory_lock(n)) FROM generate_series(1, ${count}) n`),
      );
    await take(capacity);
    // The server's two own processes, which the settings do not show.
    await expect(take(capacity + 2 * Number(settings.max_locks_per_transaction) + 1)).rejects.toThrow(
      'out of shared memory',
    );
  } finally {
    await server.stop();
  }
});
