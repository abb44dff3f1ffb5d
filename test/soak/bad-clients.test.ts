import { expect, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import { annoy, connectionsOf } from '../helpers/bad-clients.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import { withProxy } from '../helpers/proxy.ts';

const count = Number(process.env.BAD_CLIENTS ?? 100_000);
const MB = 2 ** 20;
/** A client that has not logged in is ended after a minute. */
const ALL_ENDED_MS = 80_000;

test(`${count} clients that break the protocol or stay for nothing: the command's session is right, and all are ended`, async () => {
  const database = await temporaryDatabase(18, { sql: 'CREATE TABLE counted (id int)' });
  await withProxy(database.url, {}, async ({ proxy: { host, port }, url }) => {
    const before = process.memoryUsage.rss();
    let [annoying, rows, most, peak] = [true, 0, 0, before];
    const work = withClient(url, async (client) => {
      while (annoying) {
        await client.query('INSERT INTO counted VALUES ($1)', [rows++]);
        const { rows: found } = await client.query('SELECT count(*)::int AS count FROM counted');
        expect(found).toEqual([{ count: rows }]);
        if (rows % 200 === 0) {
          peak = Math.max(peak, process.memoryUsage.rss());
          most = Math.max(most, connectionsOf(port));
        }
      }
    });
    const release = await annoy({ host, port, url }, { count, atOnce: 100 });
    annoying = false;
    await work;
    const from = performance.now();
    await expect.poll(() => connectionsOf(port), { timeout: ALL_ENDED_MS, interval: 500 }).toBe(0);
    const endedAfterMs = performance.now() - from;
    release();
    recordFigures('connections to the proxy that break the protocol or stay for nothing, PostgreSQL 18', [
      {
        connections: count,
        'statements meanwhile': 2 * rows,
        'most at once': most,
        // The clients are in the same process.
        'memory MB': Math.round((peak - before) / MB),
        'all ended after s': Math.round(endedAfterMs / 1000),
      },
    ]);
    expect(peak - before).toBeLessThan(500 * MB);
  });
});
