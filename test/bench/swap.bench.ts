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
import { median, recordRatios } from './figures.ts';

/**
 * For how long nobody can connect to a target while it is swapped without a migration, against the same statements in the
 * same order without anything that makes them safe; on PostgreSQL 18 on XFS. `SWAP_GB` is the size of the larger one.
 */
const GB = 1024 ** 3;
const ROUNDS = 3;
const LARGE_GB = Number(process.env.SWAP_GB ?? 1);
const CLIENTS = 3;
const SIZES = { small: 0.1, large: LARGE_GB };

const noPooler = skipReason(await pgBouncerObstacle());

describe.skipIf(skipReason(await loopFileSystemObstacle('xfs')))('swap', () => {
  let disk: LoopFileSystem;
  let server: Server;
  /** Numbers of rows that clients have had so far are below. */
  let written = 0;
  beforeAll(async () => {
    disk = await loopFileSystem('xfs', Math.ceil(4 + LARGE_GB * 2) * GB);
    server = await ownServer(18, { parent: disk.folder, settings: { fsync: 'on', max_wal_size: '4GB' } });
    for (const [database, sizeGb] of Object.entries(SIZES)) await fill(database, sizeGb);
  }, 600_000);
  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  }, 60_000);

  test.each(Object.entries(SIZES))('stall of a swap, %s: %d GB', async (database, sizeGb) => {
    const bare: number[] = [];
    const ours: Record<string, number[]> = {};
    for (let round = 0; round < ROUNDS; round++) {
      bare.push(await bareSql(database));
      for (const [name, ms] of Object.entries(await viaSafemigrate(database)))
        ours[name] = [...(ours[name] ?? []), ms];
    }
    const steps = Object.fromEntries(Object.entries(ours).map(([name, times]) => [name, median(times)]));
    recordRatios(
      `stall of a swap without migration, ${sizeGb} GB, median of ${ROUNDS}`,
      { 'bare SQL': median(bare), ...steps },
      'safemigrate',
    );
  });

  test.skipIf(noPooler).each(Object.entries(SIZES))(
    'longest wait of clients during a swap, %s: %d GB',
    async (database, sizeGb) => {
      const pooler = await startPgBouncer(server, { [database]: database });
      try {
        const direct = await waits(database);
        const pooled = await waits(database, pooler);
        const times = {
          'closed, directly': direct.stallMs,
          'waited, directly': direct.waitedMs,
          'closed, PgBouncer': pooled.stallMs,
          'waited, PgBouncer': pooled.waitedMs,
        };
        const title = `longest wait of ${CLIENTS} writing clients during a swap, ${sizeGb} GB, median of ${ROUNDS}`;
        const errors = `Errors: directly ${direct.errors.length}, through PgBouncer ${pooled.errors.length}.`;
        recordRatios(title, times, 'waited, PgBouncer', [errors]);
        expect(pooled.errors).toEqual([]);
      } finally {
        await pooler.stop();
      }
    },
  );

  /** From one answer to the next: directly with errors and connecting again, through PgBouncer with its PAUSE. */
  async function waits(
    database: string,
    pooler?: PgBouncer,
  ): Promise<{ stallMs: number; waitedMs: number; errors: string[] }> {
    const [stalls, waited, errors]: [number[], number[], string[]] = [[], [], []];
    for (let round = 0; round < ROUNDS; round++) {
      const url = pooler?.url(database) ?? inDatabase(server.url, database);
      written += 1_000_000;
      const load = startWriteLoad(url, CLIENTS, written);
      await until('clients write', async () => load.acknowledged.size > 20);
      try {
        // A rehearsal that disturbs nobody who is connected.
        const way = pooler ? ['--pgbouncer', pooler.console] : ['--disconnect', 'all'];
        stalls.push((await viaSafemigrate(database, ['--clone', 'cluster', ...way])).safemigrate ?? 0);
        const then = load.acknowledged.size;
        await until('they go on', async () => load.acknowledged.size > then + 20);
      } finally {
        await load.stop();
      }
      waited.push(load.longestWaitMs());
      errors.push(...load.errors);
    }
    return { stallMs: median(stalls), waitedMs: median(waited), errors };
  }

  async function fill(database: string, sizeGb: number): Promise<void> {
    await withClient(server.url, (client) => client.query(`CREATE DATABASE ${database}`));
    await withClient(inDatabase(server.url, database), async (client) => {
      await client.query(LOAD_TABLE);
      // About 1 kB a row, not to be compressed.
      await client.query(
        `CREATE TABLE filler AS SELECT n, (SELECT string_agg(md5(n::text || i), '') FROM generate_series(1, 30) i) AS text
           FROM generate_series(1, ${Math.round(sizeGb * 1e6)}) n`,
      );
    });
    await withClient(server.url, (client) => client.query('CHECKPOINT'));
  }

  async function bareSql(database: string): Promise<number> {
    return withClient(server.url, async (client) => {
      await client.query('CHECKPOINT');
      await client.query('SET file_copy_method = clone');
      const started = performance.now();
      await client.query(`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`);
      await client.query(`CREATE DATABASE ${database}_new TEMPLATE ${database} STRATEGY file_copy`);
      await client.query('BEGIN');
      await client.query(`ALTER DATABASE ${database} RENAME TO ${database}_old`);
      await client.query(`ALTER DATABASE ${database}_new RENAME TO ${database}`);
      await client.query('COMMIT');
      const tookMs = performance.now() - started;
      await client.query(`DROP DATABASE ${database}_old`);
      return tookMs;
    });
  }

  async function viaSafemigrate(
    database: string,
    more: readonly string[] = [],
  ): Promise<Record<string, number>> {
    const url = inDatabase(server.url, database);
    const { stdout, stderr } = await safemigrate([
      ...['--url', url, 'swap', '--yes', '--format', 'json', ...more],
      ...['--', ...sqlCommand('SELECT 1')],
    ]);
    if (stdout === '') throw new Error(stderr);
    const { swap } = JSON.parse(stdout) as {
      swap: { outcome: string; stallMs: number; steps: { name: string; durationMs: number }[] };
    };
    if (swap.outcome !== 'swapped') throw new Error(stdout);
    await safemigrate(['clean', '--originals', '--rolled-back', '--older-than', '0s', '--url', url]);
    const steps = Object.fromEntries(swap.steps.map(({ name, durationMs }) => [`  ${name}`, durationMs]));
    const { '  clone': cloneMs = 0, '  migrate': migrateMs = 0 } = steps;
    return {
      safemigrate: swap.stallMs,
      ...steps,
      '  all but clone, migrate': swap.stallMs - cloneMs - migrateMs,
    };
  }
});
