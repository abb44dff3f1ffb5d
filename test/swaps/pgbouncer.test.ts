import { existsSync } from 'node:fs';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import { pausePooler } from '../../src/swap/pgbouncer.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { until } from '../helpers/cutting.ts';
import { ownServer } from '../helpers/own-server.ts';
import { type PgBouncer, pgBouncerObstacle, startPgBouncer } from '../helpers/pgbouncer.ts';
import { skipReason } from '../helpers/requirements.ts';
import { guardOf, inDatabase } from '../helpers/swapping.ts';
import { LOAD_TABLE, missing, startWriteLoad, type WriteLoad } from '../helpers/write-load.ts';

const MIGRATION = 'CREATE TABLE added (id int)';

describe.skipIf(skipReason(await pgBouncerObstacle()))('clients behind PgBouncer', () => {
  let server: Server;
  let pooler: PgBouncer;
  let load: WriteLoad | undefined;
  let url: string;

  beforeAll(async () => {
    server = await ownServer(18, { settings: { wal_level: 'logical', max_slot_wal_keep_size: '1GB' } });
    url = inDatabase(server.url, 'app');
  });
  afterAll(() => server.stop());

  beforeEach(async () => {
    await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
    await withClient(url, (client) => client.query(LOAD_TABLE));
    pooler = await startPgBouncer(server, { app: 'app', alias: 'app', other: 'postgres' });
  });
  afterEach(async () => {
    await load?.stop();
    load = undefined;
    await pooler.stop();
    const cleaned = await safemigrate([
      'clean',
      '--originals',
      '--rolled-back',
      '--older-than',
      '0s',
      '--url',
      url,
    ]);
    expect(cleaned).toMatchObject({ exitCode: 0, stderr: '' });
    await withClient(server.url, (client) => client.query('DROP DATABASE app WITH (FORCE)'));
  });

  // A rehearsal that disturbs nobody who is connected.
  const swap = (...more: string[]) =>
    safemigrate([
      ...['--url', url, 'swap', '--yes', '--clone', 'cluster', '--pgbouncer', pooler.console],
      ...more,
    ]);

  async function startLoad(): Promise<WriteLoad> {
    const started = startWriteLoad(pooler.url('app'), 3);
    load = started;
    await until('rows are written', async () => started.acknowledged.size > 20);
    return started;
  }

  test('clients behind PgBouncer see no error during a swap and a rollback, and lose no row', {
    timeout: 120_000,
  }, async () => {
    const { acknowledged, errors } = await startLoad();
    const swapped = await swap('--', ...sqlCommand(MIGRATION));
    expect({ exitCode: swapped.exitCode, stderr: swapped.stderr }).toMatchObject({ exitCode: 0 });
    const then = new Set(acknowledged);
    await until('they go on', async () => acknowledged.size > then.size + 20);
    expect(await missing(url, new Set(acknowledged))).toEqual([]);
    await withClient(url, (client) => client.query('SELECT FROM added'));
    const back = await safemigrate([
      ...['rollback', '--yes', '--discard-writes', '--url', url, '--pgbouncer', pooler.console],
    ]);
    expect({ exitCode: back.exitCode, stderr: back.stderr }).toMatchObject({ exitCode: 0 });
    const after = acknowledged.size;
    await until('they go on', async () => acknowledged.size > after + 20);
    await load?.stop();
    expect(errors).toEqual([]);
    expect(await pooler.paused()).toEqual([]);
  });

  test('clients behind PgBouncer see no error during an online swap, lose no row, and wait as long as our own', {
    timeout: 120_000,
  }, async () => {
    const { acknowledged, errors } = await startLoad();
    const json = ['--format', 'json'];
    const swapped = await swap('--online', '--limit', 'cut-over=5s', ...json, '--', ...sqlCommand(MIGRATION));
    expect({ exitCode: swapped.exitCode, stderr: swapped.stderr }).toMatchObject({ exitCode: 0 });
    const { online, sessionsEnded } = JSON.parse(swapped.stdout).swap;
    // PgBouncer holds them from before the target is closed until after it is open.
    expect(online.cloneGapMs).toBeGreaterThan(online.cloneClosedMs);
    expect(online.cutOverGapMs).toBeGreaterThan(online.cutOverClosedMs);
    expect(sessionsEnded).toBe(0);
    const then = new Set(acknowledged);
    await until('they go on', async () => acknowledged.size > then.size + 20);
    expect(await missing(url, then)).toEqual([]);
    await withClient(url, (client) => client.query('SELECT FROM added'));
    await load?.stop();
    expect(errors).toEqual([]);
    expect(await pooler.paused()).toEqual([]);
  });

  test('in session pooling, where PAUSE would wait for a client of our own, nothing is measured', {
    timeout: 120_000,
  }, async () => {
    const sessions = await startPgBouncer(server, { app: 'app' }, 'session');
    try {
      const swapped = await safemigrate([
        ...['--url', url, 'swap', '--online', '--yes', '--format', 'json', '--pgbouncer', sessions.console],
        ...['--limit', 'cut-over=5s', '--', ...sqlCommand(MIGRATION)],
      ]);
      expect({ exitCode: swapped.exitCode, swap: JSON.parse(swapped.stdout).swap }).toMatchObject({
        exitCode: 0,
        swap: { outcome: 'swapped', online: { cloneGapMs: null, cutOverGapMs: null } },
      });
    } finally {
      await sessions.stop();
    }
  });

  test('clients behind PgBouncer see no error during an online swap and its way back, and lose no row', {
    timeout: 120_000,
  }, async () => {
    const { acknowledged, errors } = await startLoad();
    const limit = ['--limit', 'cut-over=5s'];
    const swapped = await swap('--online', '--way-back', '1h', ...limit, '--', ...sqlCommand(MIGRATION));
    expect({ exitCode: swapped.exitCode, stderr: swapped.stderr }).toMatchObject({ exitCode: 0 });
    const then = acknowledged.size;
    await until('they go on', async () => acknowledged.size > then + 20);
    const back = await safemigrate([
      ...['rollback', '--yes', '--url', url, '--pgbouncer', pooler.console, ...limit],
    ]);
    expect({ exitCode: back.exitCode, stderr: back.stderr }).toMatchObject({ exitCode: 0 });
    const after = new Set(acknowledged);
    await until('they go on', async () => acknowledged.size > after.size + 20);
    expect(await missing(url, after)).toEqual([]);
    await load?.stop();
    expect(errors).toEqual([]);
    expect(await pooler.paused()).toEqual([]);
  });

  test('clients behind PgBouncer do not wait for one with an open transaction: the swap is refused', {
    timeout: 60_000,
  }, async () => {
    const slow = new Client({ connectionString: pooler.url('alias') });
    slow.on('error', () => {});
    await slow.connect();
    await slow.query('BEGIN; INSERT INTO written VALUES (-1)');
    const { acknowledged } = await startLoad();
    const refused = await swap('--', ...sqlCommand(MIGRATION));
    expect(refused).toMatchObject({ exitCode: 4, stderr: expect.stringMatching(/alias did not pause/) });
    expect(await pooler.paused()).toEqual([]);
    const then = acknowledged.size;
    await until('they go on', async () => acknowledged.size > then + 20);
    await slow.query('COMMIT');
    await slow.end();
    expect(await missing(url, new Set([...acknowledged, -1]))).toEqual([]);
    expect(load?.errors).toEqual([]);
  });

  test('a PgBouncer that would connect while it is paused is refused, and so nothing is touched', {
    timeout: 60_000,
  }, async () => {
    await onConsole((console) => console.query("SET min_pool_size = '2'"));
    const { errors } = await startLoad();
    const refused = await swap('--', ...sqlCommand(MIGRATION));
    expect(refused).toMatchObject({
      exitCode: 4,
      stderr: expect.stringMatching(/a(pp|lias) has min_pool_size = 2/),
    });
    expect(await pooler.paused()).toEqual([]);
    expect(errors).toEqual([]);
  });

  test('a login of PgBouncer that is under way is not broken off, for which clients would see errors', {
    timeout: 60_000,
  }, async () => {
    const client = new Client({ connectionString: pooler.url('app') });
    client.on('error', () => {});
    const logins = () =>
      onConsole(async (console) => {
        const { rows } = await console.query<{ sv_login: number }>('SHOW POOLS');
        return rows.reduce((sum, { sv_login }) => sum + Number(sv_login), 0);
      });
    // Whoever logs in reads the catalogue of roles.
    const holder = new Client({ connectionString: server.url });
    holder.on('error', () => {});
    await holder.connect();
    await holder.query('BEGIN; LOCK TABLE pg_catalog.pg_authid IN ACCESS EXCLUSIVE MODE');
    // PgBouncer answers its first client once a server has.
    const connected = client.connect();
    connected.catch(() => {});
    await until('PgBouncer logs in', async () => (await logins()) === 1);
    const admin = parseSettings(pooler.console, readEnvironment({}, '/'));
    const pausing = pausePooler(admin, { database: 'app', port: server.port }, 30_000);
    pausing.catch(() => {});
    // They are paused in turn, and nothing logs in for this one.
    await until('the other alias is paused', async () => (await pooler.paused()).includes('alias'));
    expect(await logins()).toBe(1);
    expect(await pooler.paused()).toEqual(['alias']);
    await holder.query('ROLLBACK');
    await holder.end();
    const resume = await pausing;
    expect((await pooler.paused()).sort()).toEqual(['alias', 'app']);
    await resume();
    await connected;
    expect((await client.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    await client.end();
  });

  async function onConsole<T>(use: (console: Client) => Promise<T>): Promise<T> {
    return withClient(pooler.console, use);
  }

  const marker = () => path.join(temporaryFolder(), 'rehearsed');

  test('clients behind PgBouncer continue without an error if the command fails', {
    timeout: 60_000,
  }, async () => {
    const { acknowledged, errors } = await startLoad();
    const file = marker();
    const script = `if [ -e '${file}' ]; then exit 9; fi; touch '${file}'; exec "$@"`;
    const undone = await swap('--', 'sh', '-c', script, 'sh', ...sqlCommand(MIGRATION));
    expect(undone.exitCode).toBe(4);
    expect(await pooler.paused()).toEqual([]);
    const then = acknowledged.size;
    await until('they go on', async () => acknowledged.size > then + 20);
    expect(await missing(url, new Set(acknowledged))).toEqual([]);
    expect(errors).toEqual([]);
  });

  /** A swap whose command has been started on the clone of the closed target, with every alias paused. */
  async function swapUntilClosed() {
    const file = marker();
    const second = `${file}.again`;
    const script = `if [ -e '${file}' ]; then touch '${second}'; while kill -0 $PPID; do sleep 0.1; done; exit; fi; touch '${file}'; exec "$@"`;
    let pid = 0;
    const result = safemigrate(
      [
        ...['--url', url, 'swap', '--yes', '--clone', 'cluster', '--pgbouncer', pooler.console],
        ...['--', 'sh', '-c', script, 'sh', ...sqlCommand(MIGRATION)],
      ],
      {
        started: (started) => {
          pid = started;
        },
      },
    );
    // Each has some seconds: the machine may be busy.
    await until('the command runs', async () => existsSync(file));
    await until('the command runs again', async () => existsSync(second));
    expect((await pooler.paused()).sort()).toEqual(['alias', 'app']);
    return { result, pid };
  }

  test('clients behind PgBouncer continue without an error if safemigrate is killed', {
    timeout: 60_000,
  }, async () => {
    const { acknowledged, errors } = await startLoad();
    const { result, pid } = await swapUntilClosed();
    process.kill(pid, 'SIGKILL');
    expect(await result).toMatchObject({ signal: 'SIGKILL' });
    const then = acknowledged.size;
    await until('they go on', async () => acknowledged.size > then + 20);
    expect(await pooler.paused()).toEqual([]);
    expect(await missing(url, new Set(acknowledged))).toEqual([]);
    expect(errors).toEqual([]);
  });

  test('clients behind PgBouncer wait for clean if safemigrate and its reopen agent are killed', {
    timeout: 60_000,
  }, async () => {
    const { acknowledged, errors } = await startLoad();
    const { result, pid } = await swapUntilClosed();
    const resume = ['clean', '--url', url, '--pgbouncer', pooler.console];
    const early = await safemigrate(resume);
    expect(early.stdout).toMatch(/left +PgBouncer at .*app is closed, so its clients go on waiting/);
    process.kill(await guardOf(pid), 'SIGKILL');
    process.kill(pid, 'SIGKILL');
    expect(await result).toMatchObject({ signal: 'SIGKILL' });
    await until('the run is gone from the server', async () => {
      const { stdout } = await safemigrate(['list', '--url', url]);
      return stdout.includes('the swap of a dead run has closed');
    });
    const place = new URL(pooler.console).host;
    const listed = await safemigrate(['list', '--url', url]);
    expect(listed.stdout).toContain(`PgBouncer at ${place} may be paused`);
    expect((await pooler.paused()).sort()).toEqual(['alias', 'app']);
    const then = acknowledged.size;
    const cleaned = await safemigrate(resume);
    expect(cleaned).toMatchObject({ exitCode: 0, stderr: '' });
    expect(cleaned.stdout).toMatch(/^opened {2}app, which the swap of a dead run had closed$/m);
    expect(cleaned.stdout).toMatch(
      new RegExp(`^resumed a(pp|lias), a(pp|lias) of PgBouncer at ${place}$`, 'm'),
    );
    expect(await pooler.paused()).toEqual([]);
    await until('they go on', async () => acknowledged.size > then + 20);
    expect(await missing(url, new Set(acknowledged))).toEqual([]);
    expect(errors).toEqual([]);
    expect((await safemigrate(resume)).stdout).toContain(`PgBouncer at ${place}: nothing of app is paused`);
    const elsewhere = ['clean', '--url', server.url, '--pgbouncer', pooler.console];
    expect((await safemigrate(elsewhere)).stdout).toContain('nothing of postgres is paused');
  });
});
