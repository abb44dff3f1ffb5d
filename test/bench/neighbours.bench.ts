import { execFile } from 'node:child_process';
import { chown, mkdir, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { fillForLoad, pgbenchObstacle, startLoad } from '../helpers/pgbench.ts';
import { type PlacedServer, placedServer, SERVER_UID } from '../helpers/placed-server.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { median, recordRatios } from './figures.ts';
import { startOnCopy } from './server-on-copy.ts';

/**
 * A clone of one database of 1.5 GB in a cluster of many others, on XFS, PostgreSQL 18: against the same by hand, by somebody
 * who knows which files a server needs. NEIGHBOURS names the numbers of other databases, each of which has 300 files.
 */
const GB = 2 ** 30;
const ROUNDS = Number(process.env.TURNS ?? 3);
const SCALE = Number(process.env.SCALE ?? 100);
const NEIGHBOURS = (process.env.NEIGHBOURS ?? '140,1000').split(',').map(Number);
const CLIENTS = 8;
/** A rehearsal takes so long until it begins its backup: as much has been written by then that its checkpoint must write. */
const BEFORE_BACKUP_MS = 1_500;
const ALTER = 'ALTER TABLE pgbench_branches ADD COLUMN note text';
const run = promisify(execFile);
const skipped = skipReason(await loopFileSystemObstacle('xfs')) || skipReason(await pgbenchObstacle());

describe.skipIf(skipped)('one database among many', () => {
  let disk: LoopFileSystem;
  let server: PlacedServer;
  let url: string;
  let neighbours = 0;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 24 * GB);
    const settings = {
      shared_buffers: '256MB',
      max_wal_size: '4GB',
      checkpoint_timeout: '1h',
      fsync: 'on',
      file_copy_method: 'clone',
    };
    server = await placedServer(18, { parent: disk.folder, settings });
    url = changedUrl(server.url, { database: 'bank' });
    await withClient(server.url, (client) => client.query('CREATE DATABASE bank'));
    await fillForLoad(url, SCALE);
  }, 600_000);

  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  }, 120_000);

  test.each(NEIGHBOURS)(
    '%i neighbours',
    async (count) => {
      await addNeighbours(count);
      for (const load of [false, true]) {
        const times: Record<string, number[]> = { 'by hand': [], safemigrate: [], 'the whole rehearsal': [] };
        const pgbench = load ? await startLoad(url, CLIENTS) : undefined;
        for (let round = 0; round < ROUNDS; round++) {
          await settled();
          await delay(BEFORE_BACKUP_MS);
          times['by hand']?.push(await cloneByHand());
          await settled();
          const started = performance.now();
          const { report } = await rehearse(url, sqlCommand(ALTER), { env: { SAFEMIGRATE_CLONE: 'auto' } });
          times['the whole rehearsal']?.push(performance.now() - started);
          expect(report.clone).toMatchObject({
            method: 'cluster',
            strategy: 'reflink',
            containment: 'sandbox',
          });
          times.safemigrate?.push(report.clone.durationMs);
        }
        const ended = await pgbench?.end();
        expect(ended?.errors ?? '').toBe('');
        const medians = Object.entries(times).map(([name, all]) => [name, median(all)] as const);
        recordRatios(
          `1.5 GB beside ${count} databases of 300 files, ${load ? `${CLIENTS} clients of pgbench` : 'quiet'}`,
          Object.fromEntries(medians),
          'safemigrate',
          ended ? [`${ended.transactions.length} transactions, none failed.`] : [],
        );
      }
    },
    1_800_000,
  );

  /** The kernel writes what is dirty of a file before it shares its blocks: that is not the clone's time. */
  async function settled(): Promise<void> {
    await withClient(server.url, (client) => client.query('CHECKPOINT'));
    await run('sync', ['--file-system', disk.folder]);
  }

  async function addNeighbours(count: number): Promise<void> {
    await withClient(server.url, async (client) => {
      await client.query('ALTER SYSTEM SET fsync = off');
      await client.query('SELECT pg_reload_conf()');
      for (; neighbours < count; neighbours++)
        await client.query(`CREATE DATABASE neighbour_${neighbours} STRATEGY file_copy`);
      await client.query('ALTER SYSTEM RESET fsync');
      await client.query('SELECT pg_reload_conf()');
    });
  }

  /** A backup, `cp --reflink` of what a server with this one database needs, and a second server. @returns milliseconds. */
  async function cloneByHand(): Promise<number> {
    const copy = path.join(disk.folder, 'by-hand');
    const [pid] = (await readFile(path.join(server.data, 'postmaster.pid'), 'utf8')).split('\n');
    const program = await readlink(`/proc/${pid}/exe`);
    const started = performance.now();
    await withClient(url, async (client) => {
      const found = await client.query<{ oid: number }>(
        "SELECT oid FROM pg_database WHERE datname IN (current_database(), 'postgres', 'template0', 'template1')",
      );
      await client.query("SELECT pg_backup_start('by hand', true)");
      await mkdir(path.join(copy, 'base'), { recursive: true });
      const entries = (await readdir(server.data)).filter(
        (name) => name !== 'base' && name !== 'postmaster.pid',
      );
      const folders = found.rows.map(({ oid }) => path.join(server.data, 'base', String(oid)));
      await Promise.all([
        run('cp', ['-a', '--reflink=always', ...entries.map((name) => path.join(server.data, name)), copy]),
        run('cp', ['-a', '--reflink=always', ...folders, path.join(copy, 'base')]),
      ]);
      const { rows } = await client.query<{ labelfile: string }>(
        'SELECT labelfile FROM pg_backup_stop(false)',
      );
      const again = 'rm -rf "$1"/pg_wal "$1"/postmaster.* && cp -a --reflink=always "$2"/pg_wal "$1"';
      await run('sh', ['-c', again, 'sh', copy, server.data]);
      await run('chmod', ['700', copy]);
      const label = path.join(copy, 'backup_label');
      await writeFile(label, rows[0]?.labelfile ?? '');
      if (SERVER_UID !== undefined)
        for (const place of [copy, path.join(copy, 'base'), label])
          await chown(place, SERVER_UID, SERVER_UID);
    });
    const end = await startOnCopy(program, copy, ['fsync=off', 'ignore_invalid_pages=on']);
    const durationMs = performance.now() - started;
    await end();
    await rm(copy, { recursive: true });
    return durationMs;
  }
});
