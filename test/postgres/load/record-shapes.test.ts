import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { recordShapes } from '../../../src/load/record-shapes.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { withClient } from '../../helpers/client.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { withDatabase } from '../../helpers/target-state.ts';

describe.each([14, 18] as const)('the traffic of PostgreSQL %i', (version) => {
  let server: Server;
  let url: string;

  beforeAll(async () => {
    server = await ownServer(version, { settings: { shared_preload_libraries: 'pg_stat_statements' } });
    url = withDatabase(server.url, 'shop');
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    await withClient(url, (client) =>
      client.query(`CREATE TABLE orders (id int PRIMARY KEY, v int); INSERT INTO orders VALUES (1, 1);
        CREATE TABLE prices (id int PRIMARY KEY, v int); CREATE VIEW price AS SELECT * FROM prices`),
    );
  });
  afterAll(() => server.stop());

  /** Sends statements of a tenth of a millisecond, ten times a second: between two readings nearly all of them have gone. */
  const recordedUnder = async (statements: readonly string[]) => {
    const client = new Client({ connectionString: url });
    await client.connect();
    const session = await openSession(parseSettings(url, readEnvironment({}, '/')), {
      purpose: 'record traffic',
      readOnly: true,
    });
    const ending = new AbortController();
    let rounds = 0;
    const working = (async () => {
      while (!ending.signal.aborted) {
        for (const sql of statements) await client.query(sql);
        rounds++;
        await delay(100);
      }
    })();
    try {
      const [from, before] = [performance.now(), rounds];
      const recorded = await recordShapes(session, 3000, new AbortController().signal);
      return { ...recorded, sentPerSecond: ((rounds - before) / (performance.now() - from)) * 1000 };
    } finally {
      ending.abort();
      await working;
      await session.close();
      await client.end();
    }
  };

  /** The locks of the tables, each with its rate. */
  const locksOf = ({ shapes, names }: Awaited<ReturnType<typeof recordedUnder>>) =>
    shapes.flatMap(({ steps, perSecond }) =>
      steps.map(({ relation, mode, rows }) => ({ table: names.get(relation), mode, rows, perSecond })),
    );
  const SHORT = ['UPDATE orders SET v = v + 1 WHERE id = 1', 'SELECT v FROM price WHERE id = 1'];

  test.each([
    ['by the counters of their tables', null],
    ['by pg_stat_statements', 'CREATE EXTENSION pg_stat_statements'],
  ] as const)('has statements that are too short to be seen holding their locks, %s', async (_, prepare) => {
    if (prepare) await withClient(url, (client) => client.query(prepare));
    const recorded = await recordedUnder(SHORT);
    const locks = locksOf(recorded);
    const [orders] = locks.filter(({ table, mode }) => table === 'public.orders' && mode === 'ROW EXCLUSIVE');
    const [prices] = locks.filter(({ table }) => table === 'public.prices');
    expect(recorded.uncounted === null).toBe(prepare !== null);
    expect(orders?.rows).toBeGreaterThan(0.5);
    expect(prices?.mode).toBe('ACCESS SHARE');
    for (const lock of [orders, prices]) {
      expect(lock?.perSecond).toBeGreaterThan(recorded.sentPerSecond / 3);
      expect(lock?.perSecond).toBeLessThan(recorded.sentPerSecond * 2);
    }
  });
});
