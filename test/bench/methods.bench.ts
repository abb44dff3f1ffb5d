import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { formatBytes } from '../../src/format.ts';
import { sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { fillForLoad, type Load, pgbenchObstacle, startLoad } from '../helpers/pgbench.ts';
import { type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { recordRatios } from './figures.ts';

/**
 * Every method on the same targets, while others work in the database beside it: how soon the clone is ready, against copying the
 * files with shared blocks (the limit) and against a dump by hand (what people do today); what it takes; what the others feel.
 * PostgreSQL 15, for which Debian has the client programs.
 */
const GB = 2 ** 30;
const METHODS = ['cluster', 'template', 'dump', 'basebackup'];
/** Of the load before each method. */
const CALM_MS = 3_000;
const run = promisify(execFile);
const skipped = skipReason(await loopFileSystemObstacle('xfs')) || skipReason(await pgbenchObstacle());

/** One row is 1 MB, stored as it is. */
const wide = (
  rows: number,
) => `CREATE TABLE t (id int, wide text); ALTER TABLE t ALTER wide SET STORAGE EXTERNAL;
  INSERT INTO t SELECT n, repeat(md5(n::text), 32000) FROM generate_series(1, ${rows}) n`;
const TARGETS: Record<string, readonly string[]> = {
  '0.1 GB': [wide(100)],
  '1.5 GB': [wide(1500)],
  '6 GB': [wide(6000)],
  '10,000 relations': Array.from(
    { length: 10 },
    (_, part) =>
      `DO $$ BEGIN FOR n IN 1..500 LOOP EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY)', ${part * 500} + n); END LOOP; END $$`,
  ),
};

describe.skipIf(skipped).each(Object.keys(TARGETS))('%s', (name) => {
  let disk: LoopFileSystem;
  let server: PlacedServer;
  let url: string;
  let load: Load;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 30 * GB);
    server = await placedServer(15, { parent: disk.folder, settings: { fsync: 'off', max_wal_size: '4GB' } });
    await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
    await withClient(server.url, (client) => client.query('CREATE DATABASE bank'));
    url = changedUrl(server.url, { database: 'app' });
    for (const sql of TARGETS[name] ?? []) await withClient(url, (client) => client.query(sql));
    const bank = changedUrl(server.url, { database: 'bank' });
    await fillForLoad(bank, 2);
    await withClient(server.url, (client) => client.query('CHECKPOINT'));
    await run('sync', ['--file-system', disk.folder]);
    load = await startLoad(bank, 2);
  }, 600_000);

  afterAll(async () => {
    await load?.end();
    await server?.stop();
    await disk?.destroy();
  }, 60_000);

  test('every method', async () => {
    const ready: Record<string, number> = {};
    const windows: Record<string, [from: number, to: number]> = {};
    const space: Record<string, string> = {};
    for (const method of METHODS) {
      await delay(CALM_MS);
      const from = Date.now();
      const { report } = await rehearse(url, sqlCommand('SELECT 1'), {
        args: ['--clone', method, '--limit', 'copy=100GB', '--limit', 'stall=1h'],
        env: { PATH: `/usr/lib/postgresql/15/bin:${process.env.PATH}` },
      });
      expect(report.clone.method).toBe(method);
      windows[method] = [from, Date.now()];
      ready[method] = report.clone.durationMs;
      const { uniqueBytes, sizeBytes } = report.clone;
      space[method] =
        uniqueBytes === null ? `${formatBytes(sizeBytes ?? 0)} in all` : formatBytes(uniqueBytes);
    }
    ready['cp --reflink'] = await timed(async () => {
      const copy = path.join(disk.folder, 'copy');
      // Files of the load come and go meanwhile.
      await run('cp', ['-a', '--reflink=always', server.data, copy]).catch(() => undefined);
      await rm(copy, { recursive: true });
    });
    ready['pg_dump | pg_restore'] = await timed(() => dumpByHand(url, server.url));
    const { transactions, errors } = await load.end();
    expect(errors).toBe('');
    const perSecond = (from: number, to: number) =>
      transactions.filter(({ at }) => at >= from && at < to).length / ((to - from) / 1000);
    const loads = Object.entries(windows).map(([method, [from, to]]) => {
      const share = perSecond(from, to) / perSecond(from - CALM_MS, from);
      return `${method}: ${space[method]}; others did ${(share * 100).toFixed(0)} % of what they did before, 0 failed.`;
    });
    recordRatios(`${name}: ready`, ready, 'cp --reflink', loads);
  }, 600_000);
});

async function timed(work: () => Promise<void>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

async function dumpByHand(url: string, maintenance: string): Promise<void> {
  await withClient(maintenance, (client) => client.query('CREATE DATABASE by_hand'));
  const copy = changedUrl(maintenance, { database: 'by_hand' });
  await run('sh', [
    '-c',
    '/usr/lib/postgresql/15/bin/pg_dump -Fc -Z0 "$1" | /usr/lib/postgresql/15/bin/pg_restore -d "$2"',
    'sh',
    url,
    copy,
  ]);
  await withClient(maintenance, (client) => client.query('DROP DATABASE by_hand'));
}
