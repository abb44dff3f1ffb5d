import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { assessMethods } from '../../../src/clone/choose.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { withClient } from '../../helpers/client.ts';
import { changedUrl, withCloning } from '../../helpers/cloning.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

describe.each(OLDEST_AND_NEWEST)('looking what is possible, on PostgreSQL %d', (version) => {
  let server: Server;
  beforeAll(async () => {
    server = await ownServer(version, { settings: { autovacuum: 'off' } });
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
  });
  afterAll(() => server.stop());

  /** Goes up with each transaction that writes. */
  const nextTransaction = () =>
    withClient(server.url, async (client) => {
      const { rows } = await client.query<{ next: string }>(
        'SELECT pg_snapshot_xmax(pg_current_snapshot()) AS next',
      );
      return rows[0]?.next;
    });

  test('tells of all methods, and writes nothing', async () => {
    await withCloning(changedUrl(server.url, { database: 'shop' }), {}, async ({ context }) => {
      const before = await nextTransaction();
      expect(await assessMethods(context, 'auto')).toHaveLength(5);
      expect(await nextTransaction()).toBe(before);
    });
  });
});
