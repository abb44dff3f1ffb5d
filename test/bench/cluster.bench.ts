import { execFile } from 'node:child_process';
import { chown, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { fillForLoad, type Load, pgbenchObstacle, startLoad, type Transaction } from '../helpers/pgbench.ts';
import { type PlacedServer, placedServer, SERVER_UID } from '../helpers/placed-server.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { median, recordRatios } from './figures.ts';
import { fillWide, recordReadyBySize } from './ready-by-size.ts';
import { startOnCopy } from './server-on-copy.ts';

/**
 * A copy of the whole cluster on XFS: what those on the target feel of it, against a plain checkpoint; how soon it is
 * ready, against the same by hand; and a large one against a small one.
 */
const GB = 2 ** 30;
const run = promisify(execFile);
const skipped = skipReason(await loopFileSystemObstacle('xfs')) || skipReason(await pgbenchObstacle());

describe.skipIf(skipped).each([18, 15] as const)('under load, PostgreSQL %d', (version) => {
  const CLIENTS = 8;
  const SCALE = 20;
  const ROUNDS = 2;
  /** For as much to be written anew before each measurement. */
  const BETWEEN_MS = 10_000;
  /** From the start of what is measured; the report of a rehearsal comes within. */
  const WINDOW_MS = 30_000;

  let disk: LoopFileSystem;
  let server: PlacedServer;
  let url: string;
  let load: Load;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 6 * GB);
    server = await placedServer(version, {
      parent: disk.folder,
      settings: { shared_buffers: '256MB', max_wal_size: '2GB', checkpoint_timeout: '1h' },
    });
    url = changedUrl(server.url, { database: 'bank' });
    await withClient(server.url, (client) => client.query('CREATE DATABASE bank'));
    await fillForLoad(url, SCALE);
    load = await startLoad(url, CLIENTS);
  }, 300_000);

  afterAll(async () => {
    await load?.end();
    await server?.stop();
    await disk?.destroy();
  }, 60_000);

  test('nobody feels more of it than of a checkpoint, and it is ready as soon as by hand', async () => {
    const sessions = await load.sessions();
    const windows: Record<string, number[]> = { 'plain checkpoint': [], safemigrate: [] };
    const ready: Record<string, number[]> = { 'by hand': [], safemigrate: [] };
    const measure = async (name: string, work: () => Promise<void>) => {
      await delay(BETWEEN_MS);
      const started = Date.now();
      windows[name]?.push(started);
      await work();
      await delay(Math.max(0, started + WINDOW_MS - Date.now()));
    };
    for (let round = 0; round < ROUNDS; round++) {
      await measure('plain checkpoint', async () => {
        await withClient(server.url, (client) => client.query('CHECKPOINT'));
      });
      await measure('safemigrate', async () => {
        const command = sqlCommand('ALTER TABLE pgbench_accounts ADD COLUMN note text');
        const { report } = await rehearse(url, command, { env: { SAFEMIGRATE_CLONE: 'auto' } });
        expect(report.clone).toMatchObject({ method: 'cluster', strategy: 'reflink' });
        ready.safemigrate?.push(report.clone.durationMs);
      });
      await delay(BETWEEN_MS);
      ready['by hand']?.push(await cloneByHand(server, disk));
    }
    expect(await load.sessions()).toEqual(sessions);
    const { transactions, errors } = await load.end();
    expect(errors).toBe('');
    const figures = (name: string) =>
      (windows[name] ?? []).map((from) => within(transactions, from, WINDOW_MS));
    const p99 = (name: string) => median(figures(name).map((times) => percentile(times, 0.99)));
    const perSecond = (name: string) =>
      median(figures(name).map(({ length }) => length / (WINDOW_MS / 1000)));
    const title = `PostgreSQL ${version}, ${CLIENTS} clients`;
    recordRatios(`${title}: p99 of transactions`, mapped(windows, p99), 'safemigrate', [
      `${transactions.length} transactions; per second: ${JSON.stringify(mapped(windows, (name) => Math.round(perSecond(name))))}.`,
    ]);
    recordRatios(
      `${title}: ready`,
      mapped(ready, (name) => median(ready[name] ?? [])),
      'safemigrate',
    );
  }, 600_000);
});

describe.skipIf(skipped)('sizes', () => {
  const SIZES = { '0.1 GB': 0.1, '6 GB': 6 };
  let disk: LoopFileSystem;
  const servers = new Map<string, PlacedServer>();

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 16 * GB);
    for (const [name, gigabytes] of Object.entries(SIZES)) {
      const server = await placedServer(18, { parent: disk.folder, settings: { fsync: 'off' } });
      servers.set(name, server);
      await fillWide(server, gigabytes);
    }
  }, 600_000);

  afterAll(async () => {
    for (const server of servers.values()) await server.stop();
    await disk?.destroy();
  }, 60_000);

  test('a large database is ready as soon as a small one', async () => {
    await recordReadyBySize('ready, by size', servers, { strategy: 'reflink', folder: disk.folder });
  }, 300_000);
});

/** What a careful administrator would do: a backup, `cp --reflink`, and a second server. @returns milliseconds until it answers. */
async function cloneByHand(server: PlacedServer, disk: LoopFileSystem): Promise<number> {
  const copy = path.join(disk.folder, 'by-hand');
  const [pid] = (await readFile(path.join(server.data, 'postmaster.pid'), 'utf8')).split('\n');
  const program = await readlink(`/proc/${pid}/exe`);
  const started = performance.now();
  await withClient(server.url, async (client) => {
    await client.query("SELECT pg_backup_start('by hand', true)");
    await run('cp', ['-a', '--reflink=always', server.data, copy]);
    const { rows } = await client.query<{ labelfile: string }>('SELECT labelfile FROM pg_backup_stop(false)');
    await run('sh', [
      '-c',
      'rm -rf "$1"/pg_wal "$1"/postmaster.* && cp -a --reflink=always "$2"/pg_wal "$1"',
      'sh',
      copy,
      server.data,
    ]);
    const label = path.join(copy, 'backup_label');
    await writeFile(label, rows[0]?.labelfile ?? '');
    if (SERVER_UID !== undefined) await chown(label, SERVER_UID, SERVER_UID);
  });
  const end = await startOnCopy(program, copy);
  const durationMs = performance.now() - started;
  await end();
  await rm(copy, { recursive: true });
  return durationMs;
}

function within(transactions: readonly Transaction[], from: number, durationMs: number): number[] {
  return transactions.filter(({ at }) => at >= from && at < from + durationMs).map((each) => each.durationMs);
}

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN;
}

function mapped(of: object, value: (name: string) => number): Record<string, number> {
  return Object.fromEntries(Object.keys(of).map((name) => [name, value(name)]));
}
