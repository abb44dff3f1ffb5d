import { execFileSync } from 'node:child_process';
import { readdir, statfs } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { withClusterCloning } from '../helpers/cluster-cloning.ts';
import { until } from '../helpers/cutting.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { ownServer } from '../helpers/own-server.ts';
import { skipReason } from '../helpers/requirements.ts';

const MB = 2 ** 20;
const FILLER =
  'CREATE TABLE filler AS SELECT repeat(md5(i::text), 30) AS t FROM generate_series(1, 200000) i';
const LEFT = `
SELECT (SELECT count(*)::int FROM pg_replication_slots) AS slots,
       (SELECT count(*)::int FROM pg_stat_activity WHERE application_name LIKE 'safemigrate%backup') AS sessions`;
/** Ends one of the two sessions of a backup. */
const END_BACKUP = `
SELECT count(pg_terminate_backend(pid))::int AS ended FROM pg_stat_activity
WHERE application_name LIKE 'safemigrate%backup' AND pid NOT IN (SELECT active_pid FROM pg_replication_slots)`;
const END_SLOT = `
SELECT count(pg_terminate_backend(active_pid))::int AS ended FROM pg_replication_slots`;

/** ext4 shares no blocks, so that the copy takes long enough to be cut off in the middle. */
describe('while a cluster is copied', async () => {
  const obstacle = skipReason(await loopFileSystemObstacle('ext4'));
  let disk: LoopFileSystem | undefined;
  let server: Server;
  let url: string;

  beforeAll(async () => {
    if (obstacle) return;
    disk = await loopFileSystem('ext4', 1400 * MB);
    server = await ownServer(18, {
      parent: disk.folder,
      settings: { max_wal_size: '64MB', min_wal_size: '32MB' },
    });
    url = changedUrl(server.url, { database: 'shop' });
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    await withClient(url, (client) => client.query(FILLER));
    await withClient(url, (client) => client.query('CHECKPOINT'));
  }, 60_000);

  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  });

  const ours = async () => (await readdir(server.folder)).filter((name) => name.startsWith('safemigrate_'));

  /** The relations are being copied. */
  const inTheMiddle = () =>
    until('files are copied', async () => {
      const [folder] = await ours();
      if (folder === undefined) return false;
      const databases = await readdir(path.join(server.folder, folder, 'data', 'base')).catch(() => []);
      return databases.length > 0;
    });

  async function expectNothingLeft(): Promise<void> {
    expect(await ours()).toEqual([]);
    await withClient(url, async (client) => {
      await until('the backup is over', async () => {
        const { rows } = await client.query(LEFT);
        return rows[0].slots === 0 && rows[0].sessions === 0;
      });
    });
  }

  test.skipIf(obstacle)('an interruption ends it', async () => {
    const controller = new AbortController();
    await withClusterCloning(url, { signal: controller.signal }, async ({ assessment, create }) => {
      expect(assessment.strategy).toBe('copy');
      const created = create();
      const refused = expect(created).rejects.toThrow('enough');
      await inTheMiddle();
      controller.abort(new Error('enough'));
      await refused;
    });
    await expectNothingLeft();
  });

  test.skipIf(obstacle).each([
    { whose: 'its session', statement: END_BACKUP },
    { whose: 'the session of its slot', statement: END_SLOT },
  ])('the end of $whose ends it, and says so', async ({ statement }) => {
    await withClusterCloning(url, {}, async ({ create }) => {
      const refused = expect(create()).rejects.toMatchObject({
        code: 'LOST',
        message: expect.stringContaining('The server ended the backup'),
      });
      await inTheMiddle();
      await withClient(url, async (client) => {
        expect((await client.query(statement)).rows).toEqual([{ ended: 1 }]);
      });
      await refused;
    });
    await expectNothingLeft();
  });

  test.skipIf(obstacle)(
    'a crash of the server ends it, and nothing of the backup is left after recovery',
    async () => {
      await withClusterCloning(url, {}, async ({ create }) => {
        const refused = expect(create()).rejects.toMatchObject({ code: 'LOST' });
        await inTheMiddle();
        await server.restart('immediate');
        await refused;
      });
      await expectNothingLeft();
    },
  );

  test.skipIf(obstacle)('a disk that fills up ends it, and its space is free again', async () => {
    const ballast = path.join(disk?.folder ?? '', 'ballast');
    const { bavail, bsize } = await statfs(disk?.folder ?? '');
    const onSent = ({ sql }: { sql: string }) => {
      if (sql.includes('pg_backup_start'))
        execFileSync('fallocate', ['-l', String(bavail * bsize - 60 * MB), ballast]);
    };
    try {
      await withClusterCloning(url, { onSent, fail: () => {} }, async ({ create }) => {
        // The copy itself meets the full disk, or its watchdog sees it coming.
        await expect(create()).rejects.toMatchObject({
          code: expect.stringMatching(/^(DISK|LOST)$/),
          message: expect.stringMatching(/no room left for the clone|free space/),
        });
      });
      await expectNothingLeft();
      const after = await statfs(disk?.folder ?? '');
      expect(after.bavail * after.bsize).toBeGreaterThan(50 * MB);
    } finally {
      execFileSync('rm', ['-f', ballast]);
    }
  });
});
