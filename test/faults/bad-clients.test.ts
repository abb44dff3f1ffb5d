import { expect, test } from 'vitest';
import { annoy, connectionsOf } from '../helpers/bad-clients.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import { withProxy } from '../helpers/proxy.ts';
import { skipReason } from '../helpers/requirements.ts';

const MB = 2 ** 20;
/** Clients that have not logged in may wait: a thousand of them, for a minute. */
const MAY_WAIT = 1_000;

const notLinux = skipReason(process.platform === 'linux' ? null : 'connections are counted in /proc/net/tcp');

test.skipIf(notLinux)(
  'thousands of clients that break the protocol or stay for nothing: the command’s session is right, and they are ended',
  { timeout: 120_000 },
  async () => {
    const database = await temporaryDatabase(18, { sql: 'CREATE TABLE counted (id int)' });
    await withProxy(database.url, {}, async ({ proxy, url, statements }) => {
      const rss = process.memoryUsage.rss();
      let annoying = true;
      const work = withClient(url, async (client) => {
        let rows = 0;
        while (annoying) {
          await client.query('INSERT INTO counted VALUES ($1)', [rows++]);
          const { rows: found } = await client.query('SELECT count(*)::int AS count FROM counted');
          expect(found).toEqual([{ count: rows }]);
        }
        return rows;
      });
      const { host, port } = proxy;
      const release = await annoy({ host, port, url }, { count: 4_000, atOnce: 50 });
      annoying = false;
      const rows = await work;
      expect(rows).toBeGreaterThan(10);
      expect(statements().filter(({ statement }) => /^INSERT/.test(statement.sql))).toHaveLength(rows);
      await expect.poll(() => connectionsOf(port), { timeout: 60_000 }).toBeLessThanOrEqual(MAY_WAIT);
      // Newcomers still get in.
      await withClient(url, (client) => client.query('SELECT 1'));
      expect(process.memoryUsage.rss() - rss).toBeLessThan(200 * MB);
      release();
      await expect.poll(() => connectionsOf(port), { timeout: 60_000 }).toBe(0);
      const { rows: left } = await withClient(database.url, (client) =>
        client.query(
          "SELECT query FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()",
        ),
      );
      expect(left).toEqual([]);
    });
  },
);
