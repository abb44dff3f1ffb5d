import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { basebackup } from '../../../src/clone/basebackup.ts';
import type { Clone, CloneContext, Possible } from '../../../src/clone/method.ts';
import { SafemigrateError } from '../../../src/errors.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { recordedFolders } from '../../../src/local-server/recorded-folders.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { withoutClientPrograms } from '../../helpers/client-programs.ts';
import { type Cloning, changedUrl, withCloning } from '../../helpers/cloning.ts';
import { temporaryDatabase } from '../../helpers/database.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { majorOf } from '../../helpers/servers.ts';

const skip = await withoutClientPrograms('pg_basebackup');
const PASSWORD = 'a secret word';

function folder(): string {
  const made = mkdtempSync(path.join(tmpdir(), 'basebackup-'));
  chmodSync(made, 0o755);
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

async function run(url: string, ...statements: string[]): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
}

async function make(cloning: Cloning, change: Partial<CloneContext> = {}): Promise<Clone> {
  const context = { ...cloning.context, ...change };
  const assessment = await basebackup.assess(context);
  expect(assessment).toMatchObject({ possible: true, isolation: 'own-cluster', endsSessions: false });
  return basebackup.create(context, assessment as Possible, cloning.scope);
}

describe.skipIf(skip)('a base backup', () => {
  let server: Server;
  let shop: string;
  let tablespace: string;

  beforeAll(async () => {
    server = await ownServer(15);
    shop = changedUrl(server.url, { database: 'shop' });
    tablespace = mkdtempSync(path.join(tmpdir(), 'elsewhere=1-'));
    if (process.getuid?.() === 0) execFileSync('chown', ['65534:65534', tablespace]);
    await run(
      server.url,
      `CREATE ROLE copier LOGIN REPLICATION PASSWORD '${PASSWORD}'`,
      `CREATE ROLE plain LOGIN PASSWORD '${PASSWORD}'`,
      `CREATE TABLESPACE elsewhere LOCATION '${tablespace}'`,
      'CREATE DATABASE shop',
    );
    await run(
      shop,
      'CREATE TABLE t AS SELECT generate_series(1, 1000) AS n',
      'CREATE TABLE far (n int) TABLESPACE elsewhere',
      'INSERT INTO far VALUES (7)',
      'GRANT SELECT, INSERT ON t, far TO copier',
    );
  });

  afterAll(async () => {
    await server?.stop();
    rmSync(tablespace, { recursive: true, force: true });
  });

  test('is started here as a cluster of its own, under the same names, and is gone at the end', async () => {
    const parent = folder();
    const options = { method: 'basebackup' as const, folder: parent, allowExternalAccess: true };
    const url = changedUrl(shop, { user: 'copier', password: PASSWORD });
    await withCloning(url, options, async (cloning) => {
      const clone = await make(cloning);
      expect(clone).toMatchObject({ method: 'basebackup', containment: 'sandbox', sharesRoles: true });
      expect(clone.touched.join()).toMatch(/a checkpoint \(fast\)/);
      expect(readdirSync(parent)).toEqual([`safemigrate_${cloning.context.run}`]);
      const session = await openSession(clone.connect, { purpose: 'test' });
      await session.query('INSERT INTO public.far VALUES (8)');
      expect(
        await session.query(`SELECT (SELECT count(*)::int FROM public.t) AS t, (SELECT sum(n)::int FROM public.far) AS far,
          (SELECT count(*)::int FROM pg_replication_slots) AS slots`),
      ).toEqual([{ t: 1000, far: 15, slots: 0 }]);
      await session.close();
    });
    expect(readdirSync(parent)).toEqual([]);
    await run(
      shop,
      `DO $$ BEGIN ASSERT (SELECT sum(n) = 7 FROM far) AND NOT EXISTS (SELECT FROM pg_replication_slots); END $$`,
    );
  });

  test('ends with its program and its folder when the run is ended in the middle', async () => {
    const parent = folder();
    const controller = new AbortController();
    const reason = new SafemigrateError('INTERRUPTED', 'enough');
    const { signal } = controller;
    const options = { method: 'basebackup' as const, folder: parent, allowExternalAccess: true, signal };
    const attempt = withCloning(shop, options, async (cloning) => {
      // A spread checkpoint takes its time: what is seen below is not over at once.
      await run(shop, 'UPDATE t SET n = n');
      const options = { ...cloning.context.options, checkpoint: 'spread' as const };
      const [result] = await Promise.allSettled([make(cloning, { options }), abortOnceSeen()]);
      if (result.status === 'rejected') throw result.reason;
    });
    const abortOnceSeen = async () => {
      const client = new Client({ connectionString: server.url });
      await client.connect();
      const seen = async () => (await client.query('SELECT FROM pg_stat_progress_basebackup')).rowCount;
      while (!(await seen())) await delay(10);
      controller.abort(reason);
      await client.end();
    };
    await expect(attempt).rejects.toBe(reason);
    expect(readdirSync(parent)).toEqual([]);
    expect(await recordedFolders()).toEqual([]);
  });

  test('takes what it has forked along, so that nothing on the server waits for it', async () => {
    await run(server.url, 'CREATE DATABASE large');
    const large = changedUrl(server.url, { database: 'large' });
    await run(
      large,
      'CREATE TABLE t AS SELECT n, repeat(md5(n::text), 30) AS v FROM generate_series(1, 150000) n',
    );
    const controller = new AbortController();
    const reason = new SafemigrateError('INTERRUPTED', 'enough');
    const { signal } = controller;
    const options = { method: 'basebackup' as const, folder: folder(), allowExternalAccess: true, signal };
    const watcher = new Client({ connectionString: server.url });
    watcher.on('error', () => {});
    onTestFinished(() => watcher.end());
    await watcher.connect();
    const streams = async () =>
      (await watcher.query("SELECT FROM pg_stat_replication WHERE state = 'streaming'")).rowCount === 1;
    const attempt = withCloning(large, options, async (cloning) => {
      const abort = async () => {
        while (!(await streams())) await delay(1);
        controller.abort(reason);
      };
      const [result] = await Promise.allSettled([make(cloning), abort()]);
      if (result.status === 'rejected') throw result.reason;
    });
    await expect(attempt).rejects.toBe(reason);
    const left = 'SELECT FROM pg_stat_replication UNION ALL SELECT FROM pg_replication_slots';
    await vi.waitFor(async () => expect((await watcher.query(left)).rowCount).toBe(0), 60_000);
    // It would wait for a sender that waits for a program which reads no more.
    await watcher.query('DROP DATABASE large');
  });

  test.each([
    ['plain', {}, 'may not replicate', 'ALTER ROLE "plain" REPLICATION;'],
    [
      'copier',
      { folder: '/no/such/folder' },
      'cannot be used: ENOENT: no such file or directory',
      '--clone-dir',
    ],
  ])('as %s with %j is refused: it %s', async (user, options, reason, enable) => {
    const url = changedUrl(shop, { user, password: PASSWORD });
    await withCloning(url, { method: 'basebackup', ...options }, async ({ context }) => {
      expect(await basebackup.assess(context)).toMatchObject({
        possible: false,
        reason: expect.stringContaining(reason),
        enable: expect.stringContaining(enable),
      });
    });
  });
});

test('a base backup of a server whose programs are not here says what to install', async () => {
  const database = await temporaryDatabase(18);
  await withCloning(database.url, { method: 'basebackup' }, async ({ context }) => {
    const assessment = await basebackup.assess(context);
    if (!assessment.possible) expect(assessment.enable).toContain(`postgresql-client-${majorOf(18)}`);
    else expect(assessment.reason).toMatch(/pg_basebackup 1[89]/);
  });
});
