import { readdir } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { registryFolder } from '../../src/ownership/folder-records.ts';
import { sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { digestOf } from '../helpers/target-state.ts';

const MB = 2 ** 20;
const METHODS = ['cluster', 'template'].flatMap((method) => Array.from({ length: 5 }, () => method));
const MIGRATION = sqlCommand('ALTER TABLE items ADD COLUMN note text; UPDATE items SET note = id::text');

describe.skipIf(skipReason(await loopFileSystemObstacle('xfs')))('one target', () => {
  let disk: LoopFileSystem;
  let server: PlacedServer;
  let url: string;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 2048 * MB);
    server = await placedServer(18, { parent: disk.folder, settings: { max_wal_size: '100MB' } });
    url = changedUrl(server.url, { database: 'shop' });
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    await withClient(url, (client) =>
      client.query('CREATE TABLE items AS SELECT n AS id FROM generate_series(1, 1000) n'),
    );
  }, 60_000);

  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  });

  async function state(): Promise<Record<string, unknown>> {
    const names = (sql: string) =>
      withClient(server.url, async (client) =>
        (await client.query<{ name: string }>(sql)).rows.map(({ name }) => name),
      );
    return {
      catalogue: await digestOf(url),
      databases: await names('SELECT datname AS name FROM pg_database ORDER BY 1'),
      slots: await names('SELECT slot_name AS name FROM pg_replication_slots'),
      sessions: await names(
        `SELECT application_name AS name FROM pg_stat_activity WHERE application_name LIKE 'safemigrate %'`,
      ),
      folders: await readdir(server.folder),
      entries: await readdir(registryFolder()).catch(() => []),
    };
  }

  test('is rehearsed ten times at once, half of them inside its server: all pass, and nothing is left', {
    timeout: 180_000,
  }, async () => {
    const before = await state();
    const runs = await Promise.all(
      METHODS.map((method) =>
        rehearse(url, MIGRATION, { args: ['--clone', method], env: { SAFEMIGRATE_WAIT: '60' } }),
      ),
    );
    for (const { report, exitCode, stderr } of runs) {
      expect(exitCode, stderr).toBe(0);
      expect(report.target.changes).toEqual([]);
      expect(report.cleanup.failed).toEqual([]);
      expect(report.schema?.changes.map(({ object }) => object)).toEqual(['public.items.note']);
    }
    expect(runs.map(({ report }) => report.clone.method)).toEqual(METHODS);
    expect(new Set(runs.map(({ report }) => report.run.id)).size).toBe(METHODS.length);
    expect(await state()).toEqual(before);
  });
});
