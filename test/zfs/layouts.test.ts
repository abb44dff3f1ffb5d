import { existsSync } from 'node:fs';
import { readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { readEntries } from '../../src/ownership/folder-records.ts';
import { runProgram, safemigrate, sqlCommand } from '../helpers/cli.ts';
import { queryClone, withClusterCloning } from '../helpers/cluster-cloning.ts';
import { until } from '../helpers/cutting.ts';
import { pgbenchObstacle } from '../helpers/pgbench.ts';
import { ownFolder, type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { archivingIn, expectRowsOfThatTime } from '../helpers/point-in-time.ts';
import { enterableFolder } from '../helpers/private-clone.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { inThisShare } from '../helpers/share.ts';
import { BALANCES, startTransfers } from '../helpers/transfers.ts';
import {
  entriesSince,
  expectHotClone,
  expectNothingLeft,
  isOneVolume,
  LAYOUTS,
  serverIn,
} from '../helpers/volumes.ts';
import { type Pool, zfsObstacle, zfsPool } from '../helpers/zfs.ts';

const GB = 2 ** 30;

describe.skipIf(skipReason((await zfsObstacle()) ?? (await pgbenchObstacle())))('PostgreSQL on ZFS', () => {
  let pool: Pool;
  let server: PlacedServer | undefined;

  beforeAll(async () => {
    pool = await zfsPool(3 * GB);
  }, 60_000);
  afterEach(async () => {
    if (server) await pool.stop(server);
    server = undefined;
  });
  afterAll(async () => {
    await pool?.destroy();
  });

  test.each(inThisShare(LAYOUTS, isOneVolume))(
    'is copied by snapshots if %s, and the copy is consistent',
    async (layout) => {
      server = await serverIn(layout, pool, 18);
      await expectHotClone(layout, pool, server);
    },
    60_000,
  );

  test('is copied with a tablespace in another pool, and has nothing left in either', async () => {
    const other = await zfsPool(GB);
    const both = {
      ...pool,
      together: false,
      make: (folder: string) => (folder.endsWith('apart') ? other : pool).make(folder),
      list: async () => [...(await pool.list()), ...(await other.list())],
    };
    try {
      server = await serverIn(LAYOUTS[4], both, 18);
      await expectHotClone(LAYOUTS[4], both, server);
      await expectNothingLeft(both, server);
    } finally {
      await Promise.all([pool.stop(...(server ? [server] : [])), other.stop()]);
      server = undefined;
      await other.destroy();
    }
  }, 180_000);

  test('is copied with a dataset in one that is read-only; it has a quota, shows its snapshots, and is mounted by hand', async () => {
    server = await serverIn(LAYOUTS[0], pool, 15);
    const dataset = (await pool.list()).findLast((name) => name.includes('/volume')) ?? '';
    const elsewhere = await enterableFolder();
    for (const setting of ['readonly=off', 'snapdir=visible', 'quota=2G', 'canmount=noauto'])
      await pool.zfs('set', setting, dataset);
    await pool.zfs('snapshot', `${dataset}@of the user`);
    await pool.zfs('create', '-o', 'mountpoint=none', `${dataset}/child`);
    await pool.zfs('set', 'readonly=on', pool.name);
    try {
      await expect(writeFile(path.join(pool.shared, 'file'), '')).rejects.toThrow('EROFS');
      await expectHotClone(LAYOUTS[0], pool, server, { folder: elsewhere.path });
    } finally {
      await pool.zfs('set', 'readonly=off', pool.name);
      await elsewhere.remove();
    }
  }, 60_000);

  test.each(inThisShare(LAYOUTS, isOneVolume))(
    'has nothing left in the pool after runs were interrupted and killed if %s',
    async (layout) => {
      server = await serverIn(layout, pool, 18);
      await expectNothingLeft(pool, server);
    },
    120_000,
  );

  test('is rehearsed, and the report says how, and what it would take of a disk that compresses', async () => {
    await pool.zfs('set', 'compression=lzjb', pool.name);
    server = await serverIn(LAYOUTS[2], pool, 18);
    const { report } = await rehearse(server.url, sqlCommand('ALTER TABLE account ADD COLUMN note text'), {
      env: { SAFEMIGRATE_CLONE: 'auto' },
    });
    expect(report.clone).toMatchObject({
      method: 'cluster',
      strategy: 'zfs snapshot',
      containment: 'sandbox',
    });
    expect(report.clone.uniqueBytes).toBeGreaterThan(0);
    expect(report.target.touched.join()).toContain('a zfs snapshot of');
    expect(report.target.changes).toEqual([]);
    const { compressRatio, unsharedBytes } = report.forecast?.disk ?? {};
    expect(compressRatio).toBeGreaterThan(1);
    expect(unsharedBytes).toBe(report.clone.uniqueBytes);
  }, 60_000);

  test('is sent to another pool while it is written, and a server on what arrives can be cloned', async () => {
    server = await serverIn(LAYOUTS[0], pool, 18);
    const other = await zfsPool(GB);
    const [dataset = ''] = (await pool.list()).filter((name) => name.includes('/volume'));
    const transfers = await startTransfers(server.url, 2);
    await pool.zfs('snapshot', `${dataset}@copy`);
    const words = ['-c', 'zfs send "$1" | zfs receive -u "$2"', 'sh', `${dataset}@copy`];
    await runProgram(['sh', ...words, `${other.name}/volume 1`]);
    const received = await placedServer(18, {
      parent: other.shared,
      make: async (folder) => {
        const data = path.join(folder, 'data');
        await other.zfs('set', `mountpoint=${data}`, `${other.name}/volume 1`);
        await other.zfs('mount', `${other.name}/volume 1`).catch(() => {});
        await rm(path.join(data, 'postmaster.pid'));
      },
    });
    expect((await transfers.end()).failed).toBe(0);
    await withClusterCloning(received.url, {}, async ({ assessment, create }) => {
      expect(assessment.strategy).toBe('zfs snapshot');
      expect(await queryClone(await create(), BALANCES)).toEqual([{ sum: 0, count: 2000 }]);
    });
    await other.stop(received);
    await other.destroy();
  }, 60_000);

  test.each([LAYOUTS[0], LAYOUTS[1]])(
    'is recovered to another time from a ZFS snapshot if %s',
    async (layout) => {
      const place = await enterableFolder();
      const archive = path.join(place.path, 'archive');
      await ownFolder(archive);
      server = await serverIn(layout, pool, 18, { settings: archivingIn(archive) });
      const dataset =
        layout === LAYOUTS[1] ? pool.name : (await pool.list()).findLast((name) => name.includes('/volume'));
      const snapshot = `${dataset}@of the user`;
      const { clone, target } = await expectRowsOfThatTime(server, archive, async () => {
        await pool.zfs('snapshot', snapshot);
        return ['--base-backup', snapshot, '--clone-dir', place.path];
      });
      expect(clone).toMatchObject({ method: 'archive', containment: 'sandbox' });
      expect(target.changes).toEqual([]);
      const left = (await pool.list()).filter((name) => /safemigrate_|@/.test(name));
      expect(left).toEqual([snapshot]);
      expect((await readdir(place.path)).sort()).toEqual(['archive']);
      await pool.zfs('destroy', snapshot);
      await place.remove();
    },
    60_000,
  );

  test('has clones that stay and are reset by a rollback', async () => {
    server = await serverIn(LAYOUTS[1], pool, 18);
    const [before, recorded] = [await pool.list(), await readEntries()];
    const env = { DATABASE_URL: server.url };
    const made = await safemigrate(['clone', '--count', '2'], { env });
    const [url = '', other = ''] = made.stdout.trim().split('\n');
    const count = (of: string) =>
      runProgram(['psql', '-qXAt', of, '-c', 'SELECT count(*) FROM account']).then(({ stdout }) =>
        stdout.trim(),
      );
    await runProgram(['psql', '-qX', url, '-c', 'DROP TABLE account; CREATE TABLE new ()']);
    expect(await count(other)).toBe('2000');
    const { exitCode, stderr } = await safemigrate(['reset', url]);
    expect(exitCode, stderr).toBe(0);
    expect(await count(url)).toBe('2000');
    const watchdogs = (await entriesSince(recorded)).flatMap((each) =>
      'watchdog' in each ? [`/proc/${each.watchdog?.pid}`] : [],
    );
    expect(watchdogs).toHaveLength(2);
    await safemigrate(['clean', '--kept']);
    expect(await pool.list()).toEqual(before);
    // They ask ZFS once more, which is to be there still.
    await until('their watchdogs have ended', async () => !watchdogs.some((each) => existsSync(each)));
  }, 60_000);
});
