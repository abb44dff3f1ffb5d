import { execFile } from 'node:child_process';
import { chown, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { safemigrate } from '../../../helpers/cli.ts';
import { withClient } from '../../../helpers/client.ts';
import { queryClone, withClusterCloning } from '../../../helpers/cluster-cloning.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../../../helpers/file-system.ts';
import { pgbenchObstacle } from '../../../helpers/pgbench.ts';
import { type PlacedServer, placedServer, SERVER_UID } from '../../../helpers/placed-server.ts';
import { skipReason } from '../../../helpers/requirements.ts';
import { BALANCES, makeAccounts, startTransfers } from '../../../helpers/transfers.ts';
import { btrfsVolumes, expectHotClone, LAYOUTS, serverIn } from '../../../helpers/volumes.ts';

const MB = 1024 * 1024;
const run = promisify(execFile);

describe('PostgreSQL on btrfs', async () => {
  const obstacle = skipReason((await loopFileSystemObstacle('btrfs')) ?? (await pgbenchObstacle()));
  let place: LoopFileSystem | undefined;
  let server: PlacedServer | undefined;

  beforeAll(async () => {
    if (!obstacle) place = await loopFileSystem('btrfs', 3072 * MB);
  }, 60_000);

  afterAll(async () => {
    await server?.stop();
    await place?.destroy();
  });

  test.skipIf(obstacle).each(LAYOUTS)(
    'is copied by snapshots if %s, and the copy is consistent',
    async (layout) => {
      const volumes = btrfsVolumes(place?.folder ?? '');
      server = await serverIn(layout, volumes, layout === LAYOUTS[0] ? 14 : 18);
      await expectHotClone(layout, volumes, server);
      await server.stop();
    },
  );

  test.skipIf(obstacle)(
    'has no log in the copy, and its superuser sees nothing else of the subvolume',
    async () => {
      const volumes = btrfsVolumes(place?.folder ?? '');
      const secret = path.join(volumes.shared, 'secret');
      await writeFile(secret, 'of others', { mode: 0o644 });
      server = await serverIn(LAYOUTS[1], volumes, 18, { settings: { logging_collector: 'on' } });
      await withClusterCloning(server.url, {}, async ({ create }) => {
        const clone = await create();
        expect(await readdir(path.join(server?.folder ?? '', 'data', 'log'))).not.toEqual([]);
        const inside = await queryClone<{ name: string }>(
          clone,
          `SELECT pg_ls_dir(current_setting('data_directory') || '/log') AS name`,
        );
        expect(inside).toEqual([]);
        const folder = `left(current_setting('data_directory'), -5)`;
        const beside = await queryClone(clone, `SELECT pg_ls_dir(${folder} || '/parts/0') AS name`);
        expect(beside).not.toContainEqual({ name: 'secret' });
      });
      await rm(secret);
      await server.stop();
    },
  );

  test.skipIf(obstacle)(
    'is sent to another file system while it is written, and a server on what arrives can be cloned',
    async () => {
      const other = await loopFileSystem('btrfs', 1200 * MB);
      server = await serverIn(LAYOUTS[0], btrfsVolumes(place?.folder ?? ''), 18);
      const transfers = await startTransfers(server.url, 2);
      const source = path.join(place?.folder ?? '', 'copy');
      await run('btrfs', ['subvolume', 'snapshot', '-r', server.data, source]);
      await run('sh', ['-c', 'btrfs send "$1" | btrfs receive "$2"', 'sh', source, other.folder]);
      const received = await placedServer(18, {
        parent: other.folder,
        make: async (folder) => {
          const data = path.join(folder, 'data');
          await run('btrfs', ['subvolume', 'snapshot', path.join(other.folder, 'copy'), data]);
          await rm(path.join(data, 'postmaster.pid'));
        },
      });
      expect((await transfers.end()).failed).toBe(0);
      await withClusterCloning(received.url, {}, async ({ assessment, create }) => {
        expect(assessment.strategy).toBe('btrfs snapshot');
        expect(await queryClone(await create(), BALANCES)).toEqual([{ sum: 0, count: 2000 }]);
      });
      await received.stop();
      await server.stop();
      await run('btrfs', ['subvolume', 'delete', source]);
      await other.destroy();
    },
    60_000,
  );

  test.skipIf(obstacle)(
    'with nodatacow, in part of its files, and without fsync is copied file by file, and shares its blocks',
    async () => {
      server = await placedServer(14, {
        parent: place?.folder ?? '',
        make: async (folder, initdb) => {
          const data = path.join(folder, 'data');
          await run('btrfs', ['subvolume', 'create', data]);
          await chown(data, SERVER_UID ?? 0, SERVER_UID ?? 0);
          await initdb();
          // From here on for new files only.
          await run('find', [path.join(data, 'base'), '-type', 'd', '-exec', 'chattr', '+C', '{}', '+']);
        },
        settings: { fsync: 'off' },
      });
      await makeAccounts(server.url);
      await withClient(server.url, async (client) => {
        await client.query(
          'CREATE TABLE filler AS SELECT repeat(md5(i::text), 30) AS t FROM generate_series(1, 120000) i',
        );
        const { rows } = await client.query("SELECT pg_relation_filepath('filler') AS file");
        const { stdout } = await run('lsattr', [path.join(server?.data ?? '', rows[0].file)]);
        expect(stdout.split(' ')[0]).toContain('C');
      });
      await withClusterCloning(server.url, {}, async ({ assessment, create }) => {
        expect(assessment).toMatchObject({ strategy: 'reflink', bytes: 0 });
        const clone = await create();
        expect(await queryClone(clone, BALANCES)).toEqual([{ sum: 0, count: 2000 }]);
        expect(await queryClone(clone, 'SELECT count(*)::int AS n FROM filler')).toEqual([{ n: 120_000 }]);
        const unique = await clone.uniqueBytes();
        expect(unique).toBeLessThan(90 * MB);
      });
      const { stdout } = await safemigrate(['doctor', '--format', 'json'], {
        env: { DATABASE_URL: server.url, SAFEMIGRATE_CLONE: 'cluster' },
      });
      const found = JSON.parse(stdout).copyOnWrite as { code: string }[];
      expect(found.map(({ code }) => code).sort()).toEqual(['NODATACOW', 'WAL_INIT_ZERO', 'WAL_RECYCLE']);
      await server.stop();
    },
  );
});
