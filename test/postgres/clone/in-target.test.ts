import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../../src/local-server/embedded.ts';
import { withClient } from '../../helpers/client.ts';
import { withCloning } from '../../helpers/cloning.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

/** Many small installations have nothing but the database `postgres`: our own sessions then sit in the target. */
describe.each(OLDEST_AND_NEWEST)('PostgreSQL %d', (version) => {
  let server: Server;
  beforeAll(async () => {
    server = await ownServer(version);
  });
  afterAll(() => server.stop());

  test('the database in which we sit ourselves is cloned, and the clone dropped', async () => {
    await withCloning(server.url, {}, async ({ make, context }) => {
      expect(context.control.database).toBe('postgres');
      await make();
    });
  });

  test('--disconnect works there too', async () => {
    await withClient(server.url, async (other) => {
      await other.query('SELECT 1');
      await withCloning(server.url, { disconnect: 'all' }, async ({ make, events }) => {
        const clone = await make();
        expect(clone.touched.join()).toContain('1 session on the target ended');
        expect(events.filter(({ type }) => type === 'notice')).toEqual([]);
      });
      await expect(other.query('SELECT 1')).rejects.toThrow();
    });
  });

  test('others who are connected there are named, and ourselves are not', async () => {
    await withClient(server.url, async () => {
      await withCloning(server.url, {}, async ({ make }) => {
        await expect(make()).rejects.toMatchObject({
          code: 'SESSIONS',
          message: expect.stringMatching(/^1 other/),
        });
      });
    });
  });
});
