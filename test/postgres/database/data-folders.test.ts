import { statfs } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readDiskSpace } from '../../../src/database/data-folders.ts';
import { inspectTarget } from '../../../src/database/inspect.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { withClient } from '../../helpers/client.ts';
import { withoutClientPrograms } from '../../helpers/client-programs.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../../helpers/file-system.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { ownFolder } from '../../helpers/placed-server.ts';
import { rehearse, scriptCommand } from '../../helpers/rehearse.ts';
import { skipReason } from '../../helpers/requirements.ts';
import { withDatabase } from '../../helpers/target-state.ts';

const MB = 2 ** 20;
const obstacle = skipReason(await loopFileSystemObstacle('ext4'));

let disk: LoopFileSystem | undefined;
let server: Server;

beforeAll(async () => {
  server = await ownServer(15);
  await withClient(server.url, (client) => client.query("CREATE ROLE ordinary LOGIN PASSWORD 'ordinary'"));
  if (obstacle) return;
  disk = await loopFileSystem('ext4', 200 * MB);
  const place = path.join(disk.folder, 'tablespace');
  await ownFolder(place);
  await withClient(server.url, async (client) => {
    await client.query(`CREATE TABLESPACE small LOCATION '${place}'`);
    await client.query('CREATE DATABASE shop TABLESPACE small');
  });
  await withClient(withDatabase(server.url, 'shop'), (client) =>
    client.query(`
      CREATE TABLE orders (id int, note text);
      ALTER TABLE orders ALTER note SET STORAGE PLAIN;
      INSERT INTO orders SELECT n, repeat('x', 4000) FROM generate_series(1, 16000) n;
      CREATE TABLE small AS SELECT n AS id FROM generate_series(1, 1000) n`),
  );
});

afterAll(async () => {
  await server?.stop();
  await disk?.destroy();
});

async function freeFor(url: string): Promise<number | null> {
  const settings = parseSettings(url, readEnvironment({}, '.'));
  const target = await inspectTarget(settings, '--url');
  const session = await openSession(settings, { purpose: 'watch', readOnly: true });
  try {
    return (await readDiskSpace(session, target))?.freeBytes ?? null;
  } finally {
    await session.close();
  }
}

/** Others write there as well. */
const NEARBY = 100 * MB;

test('what is free is that of the file system of the data directory', async () => {
  const { bavail, bsize } = await statfs(path.join(server.folder, 'data'));
  const free = (await freeFor(server.url)) ?? 0;
  expect(Math.abs(free - bavail * bsize)).toBeLessThan(NEARBY);
});

test('a role that may not see where the data is does not learn it', async () => {
  const url = new URL(server.url);
  [url.username, url.password] = ['ordinary', 'ordinary'];
  expect(await freeFor(url.href)).toBeNull();
});

test('of a server that cannot be shown to be on this machine it is not known', async () => {
  const settings = parseSettings(server.url, readEnvironment({}, '.'));
  const target = await inspectTarget(settings, '--url');
  const session = await openSession(settings, { purpose: 'watch', readOnly: true });
  try {
    const elsewhere = { ...settings, hosts: [{ host: 'db.example', port: 5432 }] };
    expect(await readDiskSpace(session, { ...target, settings: elsewhere })).toBeNull();
  } finally {
    await session.close();
  }
});

const change = (sql: string) =>
  scriptCommand(
    `const client = await connect(); await client.query(${JSON.stringify(sql)}); await client.end()`,
  );

describe.skipIf(obstacle || (await withoutClientPrograms('pg_dump', 'pg_restore')))(
  'in a small default tablespace elsewhere',
  () => {
    const url = () => withDatabase(server.url, 'shop');
    // The clone goes to another file system, where there is room for the rewrite.
    const args = ['--clone', 'dump'];

    test('what does not fit is a hazard', { timeout: 150_000 }, async () => {
      const free = (await freeFor(url())) ?? 0;
      expect(free).toBeLessThan(200 * MB);
      const { report } = await rehearse(url(), change('ALTER TABLE orders ALTER id TYPE bigint'), { args });
      const { neededBytes, freeBytes } = report.forecast?.disk ?? {};
      expect(Math.abs((freeBytes ?? 0) - free)).toBeLessThan(5 * MB);
      expect(neededBytes).toBeGreaterThan(free);
      expect(report.hazards.find(({ code }) => code === 'DISK_FILLS_UP')?.severity).toBe('error');
      expect(report.verdict.pass).toBe(false);
      expect(report.caveats.map(({ path: where }) => where)).not.toContain('forecast.disk.freeBytes');
    });

    test('what fits is none', { timeout: 150_000 }, async () => {
      const { report } = await rehearse(url(), change('ALTER TABLE small ALTER id TYPE bigint'), {
        args,
        env: { SAFEMIGRATE_EXCLUDE_TABLE_DATA: 'orders' },
      });
      expect(report.hazards.map(({ code }) => code)).not.toContain('DISK_FILLS_UP');
    });
  },
);
