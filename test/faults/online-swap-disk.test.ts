import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rm, statfs } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type CliResult, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { until } from '../helpers/cutting.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { skipReason } from '../helpers/requirements.ts';

const MB = 2 ** 20;
const timeout = 120_000;
/** A tenth of it has to stay free. */
const DISK_MB = 700;
const LEFT_MB = 50;
const CHANGE = sqlCommand('ALTER TABLE item ALTER COLUMN code TYPE bigint');

describe.skipIf(skipReason(await loopFileSystemObstacle('xfs')))('a disk with pg_wal that gets full', () => {
  let disk: LoopFileSystem;
  let server: PlacedServer;
  let url: string;
  beforeAll(async () => {
    disk = await loopFileSystem('xfs', DISK_MB * MB);
    const limits = { max_slot_wal_keep_size: '200MB', max_wal_size: '64MB', min_wal_size: '32MB' };
    const settings = { wal_level: 'logical', fsync: 'off', ...limits };
    server = await placedServer(18, { parent: disk.folder, settings });
    url = changedUrl(server.url, { database: 'app' });
    await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
    await withClient(url, (client) => client.query('CREATE TABLE item (id int PRIMARY KEY, code int)'));
  }, 60_000);
  afterEach(() => rm(filler(), { force: true }));
  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  });

  const filler = () => path.join(disk.folder, 'filler');
  const freeMb = async () => {
    const { bavail, bsize } = await statfs(disk.folder);
    return Math.floor((bavail * bsize) / MB);
  };
  const fill = async () => {
    await promisify(execFile)('fallocate', ['-l', `${(await freeMb()) - LEFT_MB}M`, filler()]);
  };
  const slots = async () =>
    (await withClient(url, (client) => client.query('SELECT slot_name FROM pg_replication_slots'))).rows;

  const swap = (...more: string[]) =>
    safemigrate([
      ...['--url', url, 'swap', '--online', '--yes', '--format', 'json', '--clone', 'template'],
      ...['--limit', 'cut-over=10s', ...more],
    ]);

  const reportOf = ({ stdout, stderr }: CliResult) => {
    if (stdout === '') throw new Error(stderr);
    return JSON.parse(stdout);
  };

  test('refuses an online swap, and a way back that could fill it', { timeout }, async () => {
    const short = await swap('--limit', 'free-disk=1GB', '--', ...CHANGE);
    expect(short.exitCode).toBe(4);
    expect(reportOf(short).error.message).toMatch(
      /the disk of pg_wal has \d+ MB left, and 1 GB have to stay free \(--limit free-disk\)/,
    );
    const most = `free-disk=${(await freeMb()) - 100}MB`;
    const wayBack = await swap('--way-back', '1h', '--limit', most, '--', ...CHANGE);
    expect(wayBack.exitCode).toBe(4);
    expect(reportOf(wayBack).error.message).toContain('a way back that stops may take 200 MB of the disk');
    const planned = await safemigrate(['--url', url, 'swap', '--online', '--plan', '--', ...CHANGE]);
    expect(planned.stdout).toMatch(/given up below \d+ MB free on the disk of pg_wal; now \d+ MB/);
  });

  test('ends an online swap, and its slot is gone', { timeout }, async () => {
    const file = path.join(temporaryFolder(), 'rehearsed');
    const again = `${file}.again`;
    const script = `if [ -e '${file}' ]; then touch '${again}'; while kill -0 $PPID; do sleep 0.1; done; exit; fi; touch '${file}'; exec "$@"`;
    const result = swap('--', 'sh', '-c', script, 'sh', ...CHANGE);
    await until('the command runs again', async () => existsSync(again));
    expect(await slots()).toHaveLength(1);
    await fill();
    const undone = await result;
    expect({ exitCode: undone.exitCode, swap: reportOf(undone).swap }).toMatchObject({
      exitCode: 4,
      swap: { outcome: 'undone', reasons: [expect.stringMatching(/disk of pg_wal has \d+ MB left/)] },
    });
    expect(await slots()).toEqual([]);
  });

  test('lets clean end a way back that keeps WAL', { timeout }, async () => {
    const swapped = await swap('--way-back', '1h', '--', ...CHANGE);
    const { outcome, original } = reportOf(swapped).swap;
    expect({ outcome, stderr: swapped.stderr }).toMatchObject({ outcome: 'swapped' });
    await withClient(changedUrl(server.url, { database: original }), async (client) => {
      const { rows } = await client.query('SELECT subname FROM pg_subscription');
      await client.query(`ALTER SUBSCRIPTION ${rows[0]?.subname} DISABLE`);
    });
    await withClient(url, async (client) => {
      for (let segment = 0; segment < 6; segment++)
        await client.query("SELECT pg_logical_emit_message(false, 'test', ''), pg_switch_wal()");
    });
    await fill();
    const cleaned = await safemigrate(['clean', '--url', url]);
    expect(cleaned).toMatchObject({ exitCode: 0 });
    expect(cleaned.stdout).toMatch(/^dropped way back of app_before_\w+: the disk of pg_wal has/m);
    expect(await slots()).toEqual([]);
    expect(
      await safemigrate(['clean', '--originals', '--rolled-back', '--older-than', '0s', '--url', url]),
    ).toMatchObject({
      exitCode: 0,
    });
  });
});
