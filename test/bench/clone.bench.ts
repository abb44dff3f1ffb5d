import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { chooseMethod } from '../../src/clone/choose.ts';
import { inspectTarget } from '../../src/database/inspect.ts';
import { type Server, startServer } from '../../src/local-server/embedded.ts';
import { claimRun } from '../../src/ownership/control-session.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import { makeRehearsalPlan } from '../../src/rehearsal/plan.ts';
import { Scope } from '../../src/scope.ts';
import { withClient } from '../helpers/client.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { skipReason } from '../helpers/requirements.ts';
import { median, recordRatios } from './figures.ts';

/**
 * safemigrate's clone against the bare statement by each strategy, and against `cp --reflink` of the database's folder,
 * on PostgreSQL 18 on XFS: few large relations, and many small ones.
 */
const GB = 1024 ** 3;
const ROUNDS = 3;
const STRATEGIES = {
  clone: ['SET file_copy_method = clone', 'STRATEGY file_copy'],
  copy: ['SET file_copy_method = copy', 'STRATEGY file_copy'],
  wal_log: ['SELECT 1', 'STRATEGY wal_log'],
} as const;

const run = promisify(execFile);
const obstacle = await loopFileSystemObstacle('xfs');

describe.skipIf(skipReason(obstacle))('clone', () => {
  let disk: LoopFileSystem;
  let server: Server;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 14 * GB);
    server = await startServer({ parent: disk.folder, settings: { fsync: 'on', max_wal_size: '4GB' } });
    await fill();
  }, 600_000);

  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  }, 60_000);

  test.each([
    ['1.5 GB in few relations', 'large'],
    ['10,000 small tables', 'many'],
  ])(
    '%s',
    async (title, database) => {
      const samples: Record<string, number[]> = {};
      const sample = async (name: string, work: () => Promise<number>) => {
        await withClient(server.url, (client) => client.query('CHECKPOINT'));
        samples[name] = [...(samples[name] ?? []), await work()];
      };
      let picked = '';
      for (let round = 0; round < ROUNDS; round++) {
        for (const strategy of ['clone', 'copy', 'wal_log'] as const)
          await sample(`bare SQL, ${strategy}`, () => bareSql(database, strategy));
        await sample('cp --reflink', () => copyFolder(database));
        await sample('safemigrate', async () => {
          const { strategy, durationMs } = await viaSafemigrate(database);
          picked = strategy;
          return durationMs;
        });
      }
      const medians = Object.fromEntries(
        Object.entries(samples).map(([name, times]) => [name, median(times)]),
      );
      const fastest = Math.min(
        ...Object.entries(medians).flatMap(([name, ms]) => (name.startsWith('bare') ? [ms] : [])),
      );
      recordRatios(`clone of ${title}`, medians, 'safemigrate', [
        `safemigrate takes ${picked}: ${((medians.safemigrate ?? 0) / fastest).toFixed(2)} of the fastest strategy.`,
      ]);
    },
    600_000,
  );

  async function fill(): Promise<void> {
    await withClient(server.url, async (client) => {
      await client.query('CREATE DATABASE large');
      await client.query('CREATE DATABASE many');
    });
    await withClient(urlOf('large'), async (client) => {
      await client.query(
        'CREATE TABLE t AS SELECT n AS id, repeat(md5(n::text), 20) AS v FROM generate_series(1, 2100000) n',
      );
      await client.query('VACUUM ANALYZE t');
    });
    await withClient(urlOf('many'), async (client) => {
      for (let first = 0; first < 10_000; first += 500) {
        const tables = Array.from(
          { length: 500 },
          (_, n) => `CREATE TABLE t${first + n} (id bigint PRIMARY KEY, v text)`,
        );
        await client.query(tables.join(';'));
      }
    });
  }

  function urlOf(database: string): string {
    return server.url.replace(/\/postgres$/, `/${database}`);
  }

  async function bareSql(database: string, strategy: keyof typeof STRATEGIES): Promise<number> {
    const [setting, clause] = STRATEGIES[strategy];
    return withClient(server.url, async (client) => {
      await client.query(setting);
      const started = performance.now();
      await client.query(`CREATE DATABASE copied TEMPLATE ${database} ${clause}`);
      const durationMs = performance.now() - started;
      await client.query('DROP DATABASE copied');
      return durationMs;
    });
  }

  async function copyFolder(database: string): Promise<number> {
    const oid = await withClient(server.url, async (client) => {
      const { rows } = await client.query<{ oid: string }>('SELECT oid FROM pg_database WHERE datname = $1', [
        database,
      ]);
      return rows[0]?.oid ?? '';
    });
    const to = path.join(disk.folder, 'copied');
    const started = performance.now();
    await run('cp', ['-r', '--reflink=always', path.join(server.folder, 'data', 'base', String(oid)), to]);
    const durationMs = performance.now() - started;
    await rm(to, { recursive: true });
    return durationMs;
  }

  async function viaSafemigrate(database: string): Promise<{ strategy: string; durationMs: number }> {
    const scope = new Scope();
    const options = { signal: new AbortController().signal, audit: () => {}, emit: () => {} };
    try {
      const settings = parseSettings(urlOf(database), readEnvironment({}, '/'));
      const target = await inspectTarget(settings, 'benchmark', options);
      const context = {
        ...options,
        target,
        options: makeRehearsalPlan({ command: [], clone: { maxStallMs: 60_000 } }).clone,
        fail: () => {},
        ...(await claimRun(target, scope, options)),
      };
      const { method, assessment } = await chooseMethod(context, 'auto');
      return await method.create(context, assessment, scope);
    } finally {
      await scope.release();
    }
  }
});
