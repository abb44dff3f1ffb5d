import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PROGRAM, plainEnvironment, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { until } from '../helpers/cutting.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { makeAccounts, startTransfers } from '../helpers/transfers.ts';

const MB = 2 ** 20;
/** What the filler leaves to the original, as long as nobody else takes it. */
const LEFT_MB = 150;
/** Writes to the clone for longer than anybody waits, 1 MB a row that does not compress. */
const GREEDY = sqlCommand(
  `INSERT INTO eaten SELECT (SELECT string_agg(md5(random()::text || n || i), '') FROM generate_series(1, 32768) i)
     FROM generate_series(1, 100000) n`,
);

describe.skipIf(skipReason(await loopFileSystemObstacle('xfs')))('a disk that a clone and others eat', () => {
  let disk: LoopFileSystem;
  let server: PlacedServer;
  let url: string;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 900 * MB);
    server = await placedServer(18, {
      parent: disk.folder,
      settings: { max_wal_size: '64MB', min_wal_size: '32MB', fsync: 'off' },
    });
    url = changedUrl(server.url, { database: 'shop' });
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    await makeAccounts(url);
    await withClient(url, (client) => client.query('CREATE TABLE eaten (t text STORAGE EXTERNAL)'));
  }, 60_000);

  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  });

  const freeMb = async () => {
    const { bavail, bsize } = await statfs(disk.folder);
    return (bavail * bsize) / MB;
  };
  const clones = async () => (await readdir(server.folder)).filter((name) => name.startsWith('safemigrate_'));

  test('never gets full for the original by the clone of a tool that was killed with kill -9', {
    timeout: 180_000,
  }, async () => {
    const transfers = await startTransfers(url, 1);
    const before = await freeMb();
    let least = before;
    const looking = setInterval(() => void freeMb().then((free) => (least = Math.min(least, free))), 10);
    let filler: ChildProcess | undefined;
    try {
      const tool = spawn(PROGRAM[0], [...PROGRAM.slice(1), '--clone', 'cluster', '--', ...GREEDY], {
        env: { ...plainEnvironment(), DATABASE_URL: url },
        stdio: 'ignore',
      });
      await until('the clone has eaten', async () => (await freeMb()) < before - 100);

      const file = path.join(disk.folder, 'filler');
      const count = Math.floor(before - LEFT_MB);
      filler = spawn('dd', ['if=/dev/zero', `of=${file}`, 'bs=1M', `count=${count}`, 'oflag=dsync'], {
        stdio: 'ignore',
      });
      const full = once(filler, 'exit');
      await until('the filler eats', async () => (await stat(file).catch(() => ({ size: 0 }))).size > 5 * MB);
      tool.kill('SIGKILL');

      expect(await full).toEqual([0, null]);
      await until('the clone is gone', async () => (await clones()).length === 0);
      expect(least).toBeGreaterThan(LEFT_MB / 4);
      expect(await freeMb()).toBeGreaterThan(LEFT_MB / 2);
    } finally {
      clearInterval(looking);
      filler?.kill('SIGKILL');
    }
    const { failed, committed } = await transfers.end();
    expect(failed).toBe(0);
    expect(committed).toBeGreaterThan(0);
  });
});
