import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { assessMethods } from '../../../src/clone/choose.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { withClient } from '../../helpers/client.ts';
import { changedUrl, withCloning } from '../../helpers/cloning.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { VERSIONS } from '../../helpers/servers.ts';

/** Of 300 ms that a machine with nothing else to do would need at most: others work here too. */
const PATIENCE_MS = 3_000;

describe.each(VERSIONS)('looking what is possible, on PostgreSQL %d', (version) => {
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

  test('takes a moment for all methods together, and writes nothing', async () => {
    await withCloning(changedUrl(server.url, { database: 'shop' }), {}, async ({ context }) => {
      const times: number[] = [];
      const before = await nextTransaction();
      for (let round = 0; round < 3; round++) {
        const started = performance.now();
        expect(await assessMethods(context, 'auto')).toHaveLength(5);
        times.push(performance.now() - started);
      }
      const shown = times.map((ms) => ms.toFixed(0)).join(', ');
      console.log(`looking at all methods, PostgreSQL ${version}: ${shown} ms`);
      expect(Math.min(...times)).toBeLessThan(PATIENCE_MS);
      expect(await nextTransaction()).toBe(before);
    });
  });
});
