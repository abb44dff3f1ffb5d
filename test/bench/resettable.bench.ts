import { execFile } from 'node:child_process';
import { statfs } from 'node:fs/promises';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { safemigrate } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { median, recordFigures, recordRatios } from './figures.ts';
import { fillWide } from './ready-by-size.ts';

/** Clones that stay, on XFS: a reset against a clone, and what eight of them take beside the target. */
const GB = 2 ** 30;
const MB = 2 ** 20;
const ROUNDS = 5;
const run = promisify(execFile);

describe.skipIf(skipReason(await loopFileSystemObstacle('xfs')))('clones that stay', () => {
  let disk: LoopFileSystem;
  let server: PlacedServer;
  let env: NodeJS.ProcessEnv;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 6 * GB);
    server = await placedServer(18, { parent: disk.folder, settings: { fsync: 'off' } });
    env = { DATABASE_URL: server.url };
    await fillWide(server, 1.5);
    await withClient(server.url, (client) => client.query('CHECKPOINT'));
    await run('sync', ['--file-system', disk.folder]);
  }, 300_000);

  afterAll(async () => {
    await safemigrate(['clean', '--kept']);
    await server?.stop();
    await disk?.destroy();
  }, 60_000);

  async function timed(args: string[]): Promise<{ ms: number; stdout: string }> {
    const started = performance.now();
    const { exitCode, stderr, stdout } = await safemigrate(args, { env });
    expect(exitCode, stderr).toBe(0);
    return { ms: performance.now() - started, stdout };
  }

  test('a reset takes no longer than a clone', async () => {
    const times: Record<string, number[]> = { 'clone of 1.5 GB': [], reset: [] };
    for (let round = 0; round < ROUNDS; round++) {
      const { ms, stdout } = await timed(['clone']);
      times['clone of 1.5 GB']?.push(ms);
      const url = stdout.trim();
      await execute(url, 'DELETE FROM t WHERE id % 10 = 0');
      times.reset?.push((await timed(['reset', url])).ms);
      await timed(['clean', '--kept']);
    }
    const medians = Object.fromEntries(Object.entries(times).map(([name, each]) => [name, median(each)]));
    recordRatios('clones that stay: time', medians, 'reset');
  }, 300_000);

  test('eight of them share their blocks', async () => {
    const used = async () => {
      await run('sync', ['--file-system', disk.folder]);
      const { blocks, bfree, bsize } = await statfs(disk.folder);
      return (blocks - bfree) * bsize;
    };
    const before = await used();
    await timed(['clone', '--count', '8']);
    const more = Math.max((await used()) - before, 1);
    recordFigures('clones that stay: space', [
      { what: 'the target', MB: Math.round(before / MB) },
      { what: '8 clones, beside it', MB: Math.round(more / MB) },
    ]);
    expect(more).toBeLessThan(200 * MB);
  }, 120_000);
});

async function execute(url: string, sql: string): Promise<void> {
  const client = new Client(url);
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
