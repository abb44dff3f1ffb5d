import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cluster } from '../../../../src/clone/cluster.ts';
import { withClient } from '../../../helpers/client.ts';
import { queryClone, withClusterCloning } from '../../../helpers/cluster-cloning.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../../../helpers/file-system.ts';
import { type PlacedServer, placedServer, standbyOf } from '../../../helpers/placed-server.ts';
import { skipReason } from '../../../helpers/requirements.ts';
import { BALANCES, makeAccounts, startTransfers } from '../../../helpers/transfers.ts';

const MB = 1024 * 1024;
const CAUGHT_UP = `SELECT count(*)::int AS n FROM pg_stat_replication WHERE replay_lsn >= $1::pg_lsn`;

describe.for([18, 14] as const)('a standby of PostgreSQL %i as the source', async (version) => {
  const obstacle = skipReason(await loopFileSystemObstacle('xfs'));
  let place: LoopFileSystem | undefined;
  let primary: PlacedServer;
  let standby: PlacedServer;

  beforeAll(async () => {
    if (obstacle) return;
    place = await loopFileSystem('xfs', 768 * MB);
    primary = await placedServer(version, {
      parent: place.folder,
      settings: { max_wal_size: '100MB', wal_level: 'replica' },
    });
    await makeAccounts(primary.url);
    standby = await withClient(primary.url, (client) =>
      standbyOf(primary, version, async (sql) => (await client.query(sql)).rows),
    );
  }, 60_000);

  afterAll(async () => {
    await standby?.stop();
    await primary?.stop();
    await place?.destroy();
  });

  test.skipIf(obstacle)(
    'is copied while it follows its primary, becomes a primary itself, and the target does nothing',
    async () => {
      const transfers = await startTransfers(primary.url, 2);
      await withClient(primary.url, async (client) => {
        const { rows } = await client.query('SELECT pg_current_wal_lsn()::text AS lsn');
        await expect
          .poll(async () => (await client.query(CAUGHT_UP, [rows[0].lsn])).rows[0].n, { timeout: 60_000 })
          .toBe(1);
      });
      try {
        await withClusterCloning(primary.url, { source: standby.url }, async (cloning) => {
          const { assessment, create, sent, context } = cloning;
          expect(assessment).toMatchObject({ strategy: 'reflink' });
          expect(assessment.reason).toContain(standby.data);
          const plan = await cluster.describe(context, assessment);
          expect(plan.join()).toContain(standby.data);
          expect(plan.join()).not.toContain(primary.data);
          const clone = await create();
          expect(await queryClone(clone, BALANCES)).toEqual([{ sum: 0, count: 2000 }]);
          expect(await queryClone(clone, 'SELECT pg_is_in_recovery() AS standby')).toEqual([
            { standby: false },
          ]);
          await queryClone(clone, 'CREATE TABLE written ()');
          expect(clone.touched).toEqual([expect.stringContaining('nothing on the target')]);
          expect(sent.filter(({ purpose }) => purpose === 'backup').length).toBeGreaterThan(2);
        });
      } finally {
        await transfers.end();
      }
      expect((await transfers.end()).failed).toBe(0);
      await withClient(primary.url, async (client) => {
        const { rows } = await client.query('SELECT count(*)::int AS n FROM pg_replication_slots');
        expect(rows).toEqual([{ n: 0 }]);
      });
    },
  );
});
