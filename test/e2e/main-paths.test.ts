import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { apply } from '../helpers/apply.ts';
import { PROGRAM, plainEnvironment, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { databases, isRunning, until, withDatabase } from '../helpers/cutting.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';

/** Each subcommand once, as the first page of the documentation shows it, on a server that nobody else works on. */
let server: Server;
let env: { DATABASE_URL: string };
const HARMLESS = sqlCommand('ALTER TABLE orders ADD COLUMN note text');

beforeAll(async () => {
  server = await ownServer(18);
  await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
  env = { DATABASE_URL: withDatabase(server, 'shop') };
  await inShop(`CREATE TABLE orders (id int PRIMARY KEY, status text);
    INSERT INTO orders SELECT n, 'open' FROM generate_series(1, 3000) AS n; ANALYZE`);
});

afterAll(() => server.stop());

const inShop = (sql: string) =>
  withClient(env.DATABASE_URL, async (client) => (await client.query(sql)).rows);

const columns = async () => {
  const rows = await inShop(
    "SELECT attname::text FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attnum > 0 AND NOT attisdropped",
  );
  return rows.map(({ attname }) => attname);
};

test('doctor names a clone method that works here', async () => {
  const { exitCode, stdout, stderr } = await safemigrate(['doctor'], { env });
  expect(exitCode, stderr).toBe(0);
  expect(stdout).toMatch(/template/);
});

test('a rehearsal passes, writes a report in each format, and changes nothing', async () => {
  const folder = temporaryFolder();
  const files = ['json', 'md', 'html', 'xml', 'sarif'].map((ending) => path.join(folder, `report.${ending}`));
  const args = [...files.flatMap((file) => ['--report', file]), '--format', 'text', '--', ...HARMLESS];
  const { exitCode, stdout, stderr } = await safemigrate(args, { env });
  expect(exitCode, stderr).toBe(0);
  expect(stdout).toContain('PASSED');
  const [json = '', md, html, xml, sarif = ''] = files.map((file) => readFileSync(file, 'utf8'));
  expect(readReport(json)).toMatchObject({
    verdict: { pass: true },
    schema: { changes: [{ verb: 'create', object: 'public.orders.note' }] },
  });
  expect(md).toContain('orders.note');
  expect(html).toMatch(/^<!doctype html>/i);
  expect(xml).toContain('<testsuite');
  expect(JSON.parse(sarif)).toMatchObject({ version: '2.1.0' });
  expect(await columns()).toEqual(['id', 'status']);
});

test('a rehearsal that loses data does not pass, and names the column', async () => {
  const command = sqlCommand('ALTER TABLE orders DROP COLUMN status');
  const { exitCode, stderr } = await safemigrate(['--', ...command], { env });
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(/COLUMN_DROPPED[\s\S]*DID NOT PASS|DID NOT PASS[\s\S]*COLUMN_DROPPED/);
  expect(await columns()).toEqual(['id', 'status']);
});

test('kill -9 leaves a clone that list shows and clean drops', async () => {
  const before = await databases(server);
  const words = [...PROGRAM.slice(1), '--clone', 'template', '--', ...sqlCommand('SELECT pg_sleep(60)')];
  const run = spawn(PROGRAM[0], words, { env: { ...plainEnvironment(), ...env }, stdio: 'ignore' });
  const exited = once(run, 'exit');
  await withClient(server.url, async (client) => {
    await until('the command runs', () => isRunning(client, 'pg_sleep(60)'));
    run.kill('SIGKILL');
    await exited;
    const ours = "SELECT FROM pg_stat_activity WHERE application_name LIKE 'safemigrate % control'";
    await until('its lock is free', async () => (await client.query(ours)).rowCount === 0);
  });
  const listed = JSON.parse((await safemigrate(['list', '--format', 'json'], { env })).stdout);
  expect(listed).toMatchObject([{ owning: 'dead', name: expect.stringMatching(/^shop_rehearsal_/) }]);
  const cleaned = await safemigrate(['clean'], { env });
  expect(cleaned).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining(`dropped ${listed[0].name}`),
  });
  expect(await databases(server)).toEqual(before);
});

test('apply runs the command on the target', async () => {
  const { exitCode, apply: applied } = await apply(env.DATABASE_URL, HARMLESS);
  expect([exitCode, applied.outcome, applied.schemaEqual]).toEqual([0, 'applied', true]);
  expect(await columns()).toEqual(['id', 'status', 'note']);
});

test('swap makes the migrated clone the target, and rollback undoes that', async () => {
  const command = sqlCommand('ALTER TABLE orders ADD COLUMN total int');
  const swapped = await safemigrate(['swap', '--yes', '--format', 'json', '--', ...command], { env });
  expect(swapped.exitCode, swapped.stderr).toBe(0);
  expect(JSON.parse(swapped.stdout).swap).toMatchObject({ outcome: 'swapped', reasons: [] });
  expect(await columns()).toEqual(['id', 'status', 'note', 'total']);
  const back = await safemigrate(['rollback', '--yes'], { env });
  expect(back.exitCode, back.stderr).toBe(0);
  expect(await columns()).toEqual(['id', 'status', 'note']);
});
