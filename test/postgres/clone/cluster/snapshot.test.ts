import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { snapshotZfs, zfsCommands, zfsDatasetOf } from '../../../../src/clone/cluster/snapshot.ts';
import { newRunId } from '../../../../src/ownership/run-id.ts';
import { withClient } from '../../../helpers/client.ts';
import { queryClone, withClusterCloning } from '../../../helpers/cluster-cloning.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../../../helpers/file-system.ts';
import { type PlacedServer, placedServer, SERVER_UID } from '../../../helpers/placed-server.ts';
import { skipReason } from '../../../helpers/requirements.ts';
import { BALANCES, makeAccounts, startTransfers } from '../../../helpers/transfers.ts';

const MB = 1024 * 1024;
const run = promisify(execFile);

describe('PostgreSQL on btrfs', async () => {
  const obstacle = skipReason(await loopFileSystemObstacle('btrfs'));
  let place: LoopFileSystem | undefined;
  let server: PlacedServer | undefined;

  beforeAll(async () => {
    if (!obstacle) place = await loopFileSystem('btrfs', 1024 * MB);
  }, 60_000);

  afterAll(async () => {
    await server?.stop();
    await place?.destroy();
  });

  test.skipIf(obstacle)(
    'in a subvolume of its own is copied by a snapshot, which needs no backup and is consistent',
    async () => {
      server = await placedServer(18, {
        parent: place?.folder ?? '',
        make: async (folder, initdb) => {
          const data = path.join(folder, 'data');
          await run('btrfs', ['subvolume', 'create', data]);
          await chown(data, SERVER_UID ?? 0, SERVER_UID ?? 0);
          await initdb('--data-checksums');
        },
        settings: { logging_collector: 'on' },
      });
      await makeAccounts(server.url);
      const transfers = await startTransfers(server.url, 3);
      try {
        await withClusterCloning(server.url, {}, async ({ assessment, create, sent }) => {
          expect(assessment).toMatchObject({ strategy: 'btrfs snapshot', bytes: 0 });
          const clone = await create();
          expect(sent.some(({ sql }) => sql.includes('pg_backup_start'))).toBe(false);
          expect(sent.filter(({ sql }) => sql === 'CHECKPOINT')).toHaveLength(1);
          expect(clone.touched.join()).toMatch(/a checkpoint.*btrfs snapshot/);
          expect(await queryClone(clone, BALANCES)).toEqual([{ sum: 0, count: 2000 }]);
          await queryClone(clone, 'UPDATE account SET balance = 7');
          const folders = await readdir(server?.folder ?? '');
          const data = path.join(
            server?.folder ?? '',
            folders.find((name) => name.startsWith('safemigrate_')) ?? '',
            'data',
          );
          expect(await readdir(path.join(data, 'log'))).toEqual([]);
        });
      } finally {
        await transfers.end();
      }
      const { failed } = await transfers.end();
      expect(failed).toBe(0);
      await withClient(server.url, async (client) => {
        expect((await client.query(BALANCES)).rows).toEqual([{ sum: 0, count: 2000 }]);
      });
      const { stdout } = await run('btrfs', ['subvolume', 'list', place?.folder ?? '']);
      expect(stdout).not.toContain('safemigrate_');
      await server.stop();
    },
    30_000,
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
      await server.stop();
    },
    30_000,
  );
});

/**
 * ZFS cannot be had where these tests run: a script stands in for the command, so that its words are tested, and nothing
 * of ZFS itself.
 */
describe('the zfs command', () => {
  const PATH = process.env.PATH;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'safemigrate-zfs-'));
    const script = `#!/bin/sh
echo "$*" >> ${folder}/calls
case "$1 $2" in
"list -H") printf 'tank/pg data\\t${folder}/data\\n' ;;
"list -t") grep -q "^snapshot $4" ${folder}/calls ;;
esac`;
    await mkdir(path.join(folder, 'bin'));
    await writeFile(path.join(folder, 'bin', 'zfs'), script);
    await chmod(path.join(folder, 'bin', 'zfs'), 0o755);
    process.env.PATH = `${folder}/bin:${PATH}`;
  });

  afterAll(async () => {
    process.env.PATH = PATH;
    await rm(folder, { recursive: true });
  });

  test('is asked whose mount point the data directory is, makes the snapshot and the clone, and destroys both', async () => {
    const id = newRunId();
    expect(await zfsDatasetOf(path.join(folder, 'other'))).toBeUndefined();
    const dataset = await zfsDatasetOf(path.join(folder, 'data'));
    expect(dataset).toEqual({ name: 'tank/pg data' });
    if (!dataset) return;
    const { release } = zfsCommands(dataset, id, '/clone/data');
    await writeFile(path.join(folder, 'calls'), '');
    await run('sh', ['-c', release]);
    await snapshotZfs(dataset, id, '/clone/data');
    await run('sh', ['-c', release]);
    const calls = (await readFile(path.join(folder, 'calls'), 'utf8')).trimEnd().split('\n');
    expect(calls).toEqual([
      `list -t snapshot tank/pg data@safemigrate_${id}`,
      `snapshot tank/pg data@safemigrate_${id}`,
      `clone -o mountpoint=/clone/data tank/pg data@safemigrate_${id} tank/pg data/safemigrate_${id}`,
      `list -t snapshot tank/pg data@safemigrate_${id}`,
      `destroy -R tank/pg data@safemigrate_${id}`,
    ]);
  });
});
