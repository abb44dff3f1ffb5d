import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { performSwap } from '../../../src/swap/perform-swap.ts';
import { makeSwapPlan } from '../../../src/swap/swap-plan.ts';
import { plainEnvironment, safemigrate, sqlCommand } from '../../helpers/cli.ts';
import { withClient } from '../../helpers/client.ts';
import { until } from '../../helpers/cutting.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { VERSIONS } from '../../helpers/servers.ts';
import {
  SHADOWED_TABLES,
  type ShadowedWriters,
  startShadowedWriters,
} from '../../helpers/shadowed-writers.ts';
import { databasesBeside, inDatabase } from '../../helpers/swapping.ts';

const MIGRATIONS = [
  "ALTER TABLE orders ADD COLUMN state text NOT NULL DEFAULT 'new'",
  'ALTER TABLE lines ALTER COLUMN order_id TYPE bigint',
];

const ONLINE = { enabled: true, maxCutOverMs: 2_000, maxKeptWalBytes: 2 ** 30 };

async function swap(url: string, migration: string) {
  const plan = makeSwapPlan({
    target: { url },
    clone: { method: 'cluster' },
    command: sqlCommand(migration),
    env: { ...plainEnvironment(), DATABASE_URL: url },
    commandStdout: 'stderr',
    online: ONLINE,
    confirm: async () => true,
  });
  return (await performSwap(plan)).swap;
}

async function leftovers(server: Server): Promise<string[]> {
  const { rows } = await withClient(inDatabase(server.url, 'app'), (client) =>
    client.query<{ name: string }>(
      `SELECT slot_name::text AS name FROM pg_replication_slots UNION ALL SELECT subname::text FROM pg_subscription
       UNION ALL SELECT pubname::text FROM pg_publication UNION ALL SELECT roname FROM pg_replication_origin`,
    ),
  );
  return rows.map(({ name }) => name);
}

async function withWriters(
  url: string,
  use: (writers: ShadowedWriters) => Promise<void>,
): Promise<ShadowedWriters> {
  const writers = startShadowedWriters(url, 4);
  try {
    await until('clients write', async () => writers.committed() > 20);
    await use(writers);
  } finally {
    await writers.stop();
  }
  return writers;
}

describe.each(VERSIONS)('PostgreSQL %d, an online swap', (version: ServerVersion) => {
  let server: Server;
  let url: string;
  beforeAll(async () => {
    server = await ownServer(version, { settings: { wal_level: version >= 19 ? 'replica' : 'logical' } });
    url = inDatabase(server.url, 'app');
    await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
    await withClient(url, (client) => client.query(SHADOWED_TABLES));
  });
  afterAll(() => server.stop());

  test('loses, doubles and alters no row that clients write in the meantime', {
    timeout: 300_000,
  }, async () => {
    const writers = await withWriters(url, async ({ committed }) => {
      for (const migration of MIGRATIONS) {
        expect(await swap(url, migration)).toMatchObject({
          outcome: 'swapped',
          reasons: [],
          online: { cloneClosedMs: expect.any(Number), cutOverClosedMs: expect.any(Number) },
        });
        const before = committed();
        await until('clients write on', async () => committed() > before + 20);
      }
    });
    const { rows, wrong } = await writers.compare(url);
    expect(wrong).toEqual([]);
    expect(rows).toBeGreaterThan(100);
    expect(await leftovers(server)).toEqual([]);
    expect(await databasesBeside(server.url)).toHaveLength(1 + MIGRATIONS.length);
    await safemigrate(['clean', '--originals', '--older-than', '0s', '--url', url]);
  });

  test('is refused beforehand if the clone could not follow', { timeout: 120_000 }, async () => {
    const refused = await swap(
      url,
      'UPDATE orders SET amount = amount + 1 WHERE id IN (SELECT order_id FROM lines)',
    );
    expect(refused).toMatchObject({ outcome: 'refused', reasons: [expect.stringContaining('orders')] });
    expect(await leftovers(server)).toEqual([]);
    expect(await databasesBeside(server.url)).toEqual(['app']);
  });
});
