import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readTraffic } from '../../../src/database/read-traffic.ts';
import type { TrafficReading } from '../../../src/database/traffic.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { withClient } from '../../helpers/client.ts';
import { temporaryDatabase } from '../../helpers/database.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { majorOf, OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

async function readingOf(url: string): Promise<TrafficReading> {
  const settings = parseSettings(url, readEnvironment({}, '.'));
  const session = await openSession(settings, { purpose: 'watch', readOnly: true });
  try {
    return await readTraffic(session);
  } finally {
    await session.close();
  }
}

const inserted = ({ relations }: TrafficReading) => relations.get('public.orders')?.inserted;

/** Statistics of a session that has ended arrive a moment later, those of its database before those of its tables. */
async function readingWith(url: string, rows: number): Promise<TrafficReading> {
  await expect.poll(async () => inserted(await readingOf(url)), { timeout: 60_000 }).toBe(rows);
  return readingOf(url);
}

describe.each(OLDEST_AND_NEWEST)('the time since which %d counts', (version) => {
  let server: Server;
  beforeAll(async () => {
    server = await ownServer(version);
    await withClient(server.url, (client) =>
      client.query('CREATE TABLE orders (id int); INSERT INTO orders SELECT generate_series(1, 7)'),
    );
  });
  afterAll(() => server?.stop());

  test('stays known if the counters of one table are reset, or is said to be unknown', async () => {
    const database = await temporaryDatabase(version, {
      sql: 'CREATE TABLE orders (id int); CREATE TABLE other (id int); INSERT INTO orders SELECT generate_series(1, 7); ANALYZE other',
    });
    const reset = (sql: string) => withClient(database.url, (client) => client.query(`SELECT ${sql}`));
    const whole = (await readingWith(database.url, 7)).countedSinceMs;
    await reset("pg_stat_reset_single_table_counters('orders'::regclass)");
    await expect.poll(async () => inserted(await readingOf(database.url)), { timeout: 60_000 }).toBe(0);
    const single = await readingOf(database.url);
    if (majorOf(version) < 19) expect(single.countedSinceMs).toBeNull();
    else {
      expect(single.countedSinceMs).toBe(whole);
      expect(single.relations.get('public.orders')?.countedSinceMs).toBeGreaterThan(whole ?? 0);
      expect(single.relations.get('public.other')?.countedSinceMs).toBeNull();
    }

    await reset('pg_stat_reset()');
    await expect
      .poll(async () => (await readingOf(database.url)).countedSinceMs, { timeout: 60_000 })
      .toBeGreaterThan(single.atMs);
    await database.drop();
  });

  test('outlives a restart as the counters do, begins anew with a crash and with a reset', async () => {
    const first = await readingWith(server.url, 7);
    // The data directory is a copy of one that was made some time in this run.
    expect(first.countedSinceMs).toBeGreaterThan(first.atMs - 3_600_000);
    expect(first.countedSinceMs).toBeLessThan(first.atMs);

    await server.restart('fast');
    expect((await readingWith(server.url, 7)).countedSinceMs).toBe(first.countedSinceMs);

    await server.restart('immediate');
    const crashed = await readingWith(server.url, 0);
    expect(crashed.countedSinceMs).toBeGreaterThan(first.atMs);

    await withClient(server.url, (client) => client.query('SELECT pg_stat_reset()'));
    await expect
      .poll(async () => (await readingOf(server.url)).countedSinceMs, { timeout: 60_000 })
      .toBeGreaterThan(crashed.atMs);
    const reset = (await readingOf(server.url)).countedSinceMs;

    await withClient(server.url, (client) => client.query("SELECT pg_stat_reset_shared('bgwriter')"));
    expect((await readingOf(server.url)).countedSinceMs).toBe(reset);
  });
});
