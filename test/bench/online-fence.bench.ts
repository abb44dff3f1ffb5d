import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { inTransaction, openingStatements } from '../../src/ownership/reopen.ts';
import type { Session } from '../../src/postgres/connection/session.ts';
import { closeDatabase } from '../../src/swap/fence.ts';
import { withClient } from '../helpers/client.ts';
import { until } from '../helpers/cutting.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { withSessionIn } from '../helpers/following.ts';
import { ownServer } from '../helpers/own-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { SHADOWED_TABLES, startShadowedWriters } from '../helpers/shadowed-writers.ts';
import { inDatabase } from '../helpers/swapping.ts';
import { median, recordFigures } from './figures.ts';

/**
 * For how long an online swap closes the target to clone it, by the strategy of CREATE DATABASE, after a checkpoint of its own, on
 * PostgreSQL 18 on XFS. The strategies take turns. `FENCE_MB` has the sizes, separated by commas, `FENCE_ROUNDS` the clones of each.
 */
const SIZES_MB = (process.env.FENCE_MB ?? '10,100,1000').split(',').map(Number);
const ROUNDS = Number(process.env.FENCE_ROUNDS ?? 7);
const CLIENTS = 8;
/** So that there are some 300 transactions a second. */
const PAUSE_MS = 20;
const STRATEGIES = {
  'file_copy, files cloned': ['SET file_copy_method = clone', 'STRATEGY file_copy'],
  wal_log: ['SELECT 1', 'STRATEGY wal_log'],
} as const;
type Strategy = keyof typeof STRATEGIES;

const obstacle = skipReason(await loopFileSystemObstacle('xfs'));
const signal = new AbortController().signal;

describe.skipIf(obstacle)('a target that is closed to be cloned', () => {
  let disk: LoopFileSystem;
  let server: Server;
  beforeAll(async () => {
    disk = await loopFileSystem('xfs', Math.ceil(8 + (Math.max(...SIZES_MB) / 1000) * 6) * 1024 ** 3);
    server = await ownServer(18, { parent: disk.folder, settings: { fsync: 'on', max_wal_size: '4GB' } });
  }, 300_000);
  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  }, 120_000);

  test.each(SIZES_MB)(
    '%d MB',
    async (sizeMb) => {
      const url = inDatabase(server.url, 'app');
      await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
      await withClient(url, async (client) => {
        await client.query(SHADOWED_TABLES);
        // About 1 kB a row, not to be compressed.
        await client.query(
          `CREATE TABLE filler AS SELECT n, (SELECT string_agg(md5(n::text || i), '') FROM generate_series(1, 30) i) AS text
             FROM generate_series(1, ${sizeMb * 1000}) n`,
        );
      });
      const samples = new Map(Object.keys(STRATEGIES).map((name) => [name as Strategy, [] as Sample[]]));
      for (let round = 0; round < ROUNDS; round++)
        for (const [strategy, found] of samples) found.push(await closedFor(url, strategy));
      const rows = [...samples].map(([strategy, found]) => {
        const closed = found.map(({ closedMs }) => closedMs);
        const gaps = found.map(({ gapMs }) => gapMs);
        return {
          strategy,
          clones: found.length,
          'closed: median ms': Math.round(median(closed)),
          'closed: longest ms': Math.round(Math.max(...closed)),
          "a client's longest transaction: median ms": Math.round(median(gaps)),
          'longest ms': Math.round(Math.max(...gaps)),
          'per s': Math.round(median(found.map(({ perSecond }) => perSecond))),
        };
      });
      recordFigures(`a target of ${sizeMb} MB is closed for its clone, while ${CLIENTS} clients write`, rows);
      await withClient(server.url, (client) => client.query('DROP DATABASE app WITH (FORCE)'));
      expect(rows.every(({ clones }) => clones === ROUNDS)).toBe(true);
    },
    1_800_000,
  );

  interface Sample {
    readonly closedMs: number;
    readonly gapMs: number;
    readonly perSecond: number;
  }

  /** Clones the target once, as forkTarget() does, while clients write. */
  async function closedFor(url: string, strategy: Strategy): Promise<Sample> {
    await withClient(url, (client) => client.query('TRUNCATE orders, lines, events, markers'));
    const writers = startShadowedWriters(url, CLIENTS, PAUSE_MS);
    const startedAt = performance.now();
    const writeOn = async () => {
      const before = writers.committed();
      await until('clients write', async () => writers.committed() > before + 300);
    };
    try {
      await writeOn();
      writers.takeLongestGapMs();
      const perSecond = writers.committed() / ((performance.now() - startedAt) / 1000);
      const closedMs = await withSessionIn(server, 'postgres', (session) => cloneOnce(session, strategy));
      await writeOn();
      return { closedMs, gapMs: writers.takeLongestGapMs(), perSecond };
    } finally {
      await writers.stop();
      await withClient(server.url, (client) => client.query('DROP DATABASE IF EXISTS copied'));
    }
  }

  async function cloneOnce(session: Session, strategy: Strategy): Promise<number> {
    const [set, clause] = STRATEGIES[strategy];
    const [row] = await session.query<{ oid: string }>(
      "SELECT oid::int8 AS oid FROM pg_database WHERE datname = 'app'",
    );
    await session.query(set);
    await session.query('SET statement_timeout = 0');
    await session.query('CHECKPOINT');
    const startedAt = performance.now();
    await closeDatabase(session, { database: 'app', oid: Number(row?.oid) }, 'closed', signal);
    await session.query(`CREATE DATABASE copied TEMPLATE app ${clause}`);
    await inTransaction(session, openingStatements('app', null));
    return performance.now() - startedAt;
  }
});
