import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { until } from '../helpers/cutting.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { ownServer } from '../helpers/own-server.ts';
import { type PgBouncer, pgBouncerObstacle, startPgBouncer } from '../helpers/pgbouncer.ts';
import { skipReason } from '../helpers/requirements.ts';
import { inDatabase } from '../helpers/swapping.ts';
import { LOAD_TABLE, startWriteLoad } from '../helpers/write-load.ts';
import { recordFigures } from './figures.ts';

/**
 * For how long a target is closed while the type of a column of a large table is changed, by a swap and by an online swap, while
 * clients write; on PostgreSQL 18 on XFS. `ONLINE_GB` is the size of the table.
 */
const GB = 1024 ** 3;
const TABLE_GB = Number(process.env.ONLINE_GB ?? 1);
const CLIENTS = 8;
const WIDER = 'ALTER TABLE filler ALTER COLUMN n TYPE bigint';
const NARROW = 'ALTER TABLE filler ALTER COLUMN n TYPE int';

const noDisk = skipReason(await loopFileSystemObstacle('xfs'));
const noPooler = skipReason(await pgBouncerObstacle());

describe.skipIf(noDisk || noPooler)('the type of a column of a large table', () => {
  let disk: LoopFileSystem;
  let server: Server;
  let url: string;
  let written = 0;
  beforeAll(async () => {
    disk = await loopFileSystem('xfs', Math.ceil(8 + TABLE_GB * 6) * GB);
    server = await ownServer(18, {
      parent: disk.folder,
      settings: { fsync: 'on', max_wal_size: '4GB', wal_level: 'logical' },
    });
    url = inDatabase(server.url, 'app');
    await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
    await withClient(url, async (client) => {
      await client.query(LOAD_TABLE);
      // About 1 kB a row, not to be compressed.
      await client.query(
        `CREATE TABLE filler AS SELECT n, (SELECT string_agg(md5(n::text || i), '') FROM generate_series(1, 30) i) AS text
           FROM generate_series(1, ${Math.round(TABLE_GB * 1e6)}) n`,
      );
      await client.query('ALTER TABLE filler ADD PRIMARY KEY (n)');
    });
  }, 1_800_000);
  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  }, 120_000);

  test(`changed in ${TABLE_GB} GB`, async () => {
    const offline = await swapped([]);
    const online = await swapped(['--online']);
    const pooler = await startPgBouncer(server, { app: 'app' });
    try {
      const pooled = await swapped(['--online'], pooler);
      recordFigures(
        `the type of a column of ${TABLE_GB} GB is changed by a swap, while ${CLIENTS} clients write to another table`,
        [
          { way: 'swap', ...offline },
          { way: 'swap --online', ...online },
          { way: 'swap --online --pgbouncer', ...pooled },
        ],
      );
      expect(pooled['client errors']).toBe(0);
    } finally {
      await pooler.stop();
    }
  }, 3_600_000);

  async function swapped(online: readonly string[], pooler?: PgBouncer) {
    await withClient(url, (client) => client.query(NARROW));
    await withClient(server.url, (client) => client.query('CHECKPOINT'));
    written += 10_000_000;
    const load = startWriteLoad(pooler?.url('app') ?? url, CLIENTS, written);
    await until('clients write', async () => load.acknowledged.size > 20);
    const startedAt = performance.now();
    try {
      const words = ['--url', url, 'swap', ...online, '--yes', '--format', 'json', '--clone', 'cluster'];
      const paused = pooler ? ['--pgbouncer', pooler.console] : [];
      const { stdout, stderr } = await safemigrate([...words, ...paused, '--', ...sqlCommand(WIDER)]);
      if (stdout === '') throw new Error(stderr);
      const { swap } = JSON.parse(stdout);
      if (swap.outcome !== 'swapped') throw new Error(stdout);
      const tookMs = performance.now() - startedAt;
      const then = load.acknowledged.size;
      await until('they go on', async () => load.acknowledged.size > then + 20);
      return {
        'closed ms': Math.round(swap.stallMs),
        'for the clone ms': Math.round(swap.online?.cloneClosedMs ?? 0),
        'for the cut-over ms': Math.round(swap.online?.cutOverClosedMs ?? 0),
        'steps of the last closing ms': lastClosing(swap.steps),
        "a client's longest wait ms": Math.round(load.longestWaitMs()),
        'client errors': load.errors.length,
        'whole run s': Math.round(tookMs / 1000),
        'rows compared': swap.online?.rowsCompared ?? 0,
      };
    } finally {
      await load.stop();
      await safemigrate(['clean', '--originals', '--rolled-back', '--older-than', '0s', '--url', url]);
    }
  }
});

function lastClosing(steps: { name: string; durationMs: number }[]): string {
  const closed = steps.slice(steps.findLastIndex(({ name }) => name === 'close'));
  return closed.map(({ name, durationMs }) => `${name} ${Math.round(durationMs)}`).join(', ');
}
