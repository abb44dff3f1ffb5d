import { chmod, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { apply } from '../helpers/apply.ts';
import { withClient } from '../helpers/client.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { ownServer } from '../helpers/own-server.ts';
import { ownFolder } from '../helpers/placed-server.ts';
import { scriptCommand } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { withDatabase } from '../helpers/target-state.ts';

const MB = 2 ** 20;
const obstacle = skipReason(await loopFileSystemObstacle('ext4'));

let disk: LoopFileSystem | undefined;
let server: Server | undefined;

beforeAll(async () => {
  if (obstacle) return;
  disk = await loopFileSystem('ext4', 64 * MB);
  server = await ownServer(18);
});

afterAll(async () => {
  await server?.stop();
  await disk?.destroy();
});

/** The clone is told from the target by its name: there it needs less. */
const FILL = scriptCommand(`
  const client = await connect();
  const { rows: [{ name }] } = await client.query('SELECT current_database() AS name');
  await client.query('CREATE TABLE first (id int)');
  try {
    await client.query('BEGIN');
    await client.query('INSERT INTO filled SELECT n FROM generate_series(1, ' + (name === 'shop' ? 5000000 : 10) + ') n');
    await client.query('COMMIT');
  } finally {
    await client.end();
  }`);

test.skipIf(obstacle)(
  "an apply that fills the target's disk says what was committed before, and that the rest was rolled back",
  async () => {
    const place = path.join(disk?.folder ?? '', 'tablespace');
    await ownFolder(place);
    await chmod(place, 0o700);
    const spare = path.join(disk?.folder ?? '', 'spare');
    await writeFile(spare, Buffer.alloc(MB));
    const url = withDatabase(server?.url ?? '', 'shop');
    await withClient(server?.url ?? '', async (client) => {
      await client.query(`CREATE TABLESPACE small LOCATION '${place}'`);
      await client.query('CREATE DATABASE shop');
    });
    await withClient(url, (client) => client.query('CREATE TABLE filled (n int) TABLESPACE small'));

    const run = await apply(url, FILL);
    expect(run.exitCode).toBe(5);
    expect(run.apply).toMatchObject({
      outcome: 'partly',
      committed: [{ sql: 'CREATE TABLE first (id int)' }],
      rolledBack: [{ sql: expect.stringMatching(/^INSERT INTO filled/) }],
    });
    expect(run.apply.statements.find(({ sql }) => sql.startsWith('INSERT'))?.error?.sqlstate).toBe('53100');
    // From 19 on a read writes what it learnt of the pages, and fails on a full disk.
    await rm(spare);
    const { rows } = await withClient(url, (client) =>
      client.query(
        "SELECT to_regclass('first') IS NOT NULL AS first, (SELECT count(*)::int FROM filled) AS filled",
      ),
    );
    expect(rows).toEqual([{ first: true, filled: 0 }]);
  },
);
