import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { PROGRAM, plainEnvironment, safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { until } from '../helpers/cutting.ts';
import { ownServer } from '../helpers/own-server.ts';
import { startRelay } from '../helpers/relay.ts';
import { inThisShare } from '../helpers/share.ts';
import { databasesBeside, guardOf, inDatabase } from '../helpers/swapping.ts';

const timeout = 120_000;

const SCHEMA = `
CREATE TYPE state AS ENUM ('new', 'old');
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE item (id int PRIMARY KEY, note text NOT NULL, size int, short varchar(5), state state, code int UNIQUE,
  parent int CONSTRAINT of_parent REFERENCES parent, amount int CONSTRAINT positive CHECK (amount > 0));
INSERT INTO parent VALUES (1);
INSERT INTO item VALUES (1, 'n', 1, 's', 'new', 1, 1, 1)`;
/** Everything that the former schema forbids is allowed afterwards. */
const MIGRATION = `
ALTER TABLE item ALTER note DROP NOT NULL, ALTER size TYPE bigint, ALTER short TYPE text, ADD COLUMN extra int,
  DROP CONSTRAINT item_code_key, DROP CONSTRAINT of_parent, DROP CONSTRAINT positive;
ALTER TYPE state ADD VALUE 'gone';
CREATE TABLE fresh (id int PRIMARY KEY)`;

describe('a way back', () => {
  let server: Server;
  let url: string;
  beforeAll(async () => {
    const settings = { wal_level: 'logical', max_slot_wal_keep_size: '64MB' };
    server = await ownServer(18, { settings });
    url = inDatabase(server.url, 'app');
  });
  afterAll(() => server.stop());

  const ask = async (sql: string) => (await withClient(url, (client) => client.query(sql))).rows;

  beforeEach(async () => {
    await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
    await ask(SCHEMA);
  });
  afterEach(async () => {
    expect(
      await safemigrate(['clean', '--originals', '--rolled-back', '--older-than', '0s', '--url', url]),
    ).toMatchObject({
      exitCode: 0,
      stderr: '',
    });
    expect(await left()).toEqual([]);
    expect(await databasesBeside(server.url)).toEqual(['app']);
    await withClient(server.url, (client) => client.query('DROP DATABASE app WITH (FORCE)'));
  });

  /** Names everything of a way back on the server. */
  const left = async () => {
    const rows = await ask(
      `SELECT slot_name::text AS name FROM pg_replication_slots UNION ALL SELECT subname::text FROM pg_subscription
       UNION ALL SELECT pubname::text FROM pg_publication UNION ALL SELECT roname FROM pg_replication_origin`,
    );
    return rows.map(({ name }) => name);
  };

  async function swap(migration = MIGRATION, lasts = '1h') {
    const words = ['swap', '--online', '--way-back', lasts, '--yes', '--format', 'json', '--url', url];
    const { exitCode, stdout, stderr } = await safemigrate([
      ...words,
      ...['--clone', 'template', '--limit', 'cut-over=10s', '--', ...sqlCommand(migration)],
    ]);
    if (stdout === '') throw new Error(stderr);
    const { swap: section, error } = JSON.parse(stdout);
    return { exitCode, swap: section, error };
  }

  async function swapped() {
    const { exitCode, swap: section } = await swap();
    expect({ exitCode, reasons: section.reasons }).toEqual({ exitCode: 0, reasons: [] });
    return section;
  }

  const rollback = (...more: string[]) =>
    safemigrate(['rollback', '--yes', '--url', url, '--limit', 'cut-over=10s', ...more]);

  const wayBack = async () => {
    const { stdout } = await safemigrate(['list', '--format', 'json', '--url', url]);
    return JSON.parse(stdout).find((row: { role: string }) => row.role === 'original')?.wayBack;
  };

  test('says before the swap what does not go back, and stops at each of it', {
    timeout: 240_000,
  }, async () => {
    const { online, original } = await swapped();
    expect(online.wayBack).toEqual({
      until: expect.any(String),
      failure: null,
      watchdogPid: expect.any(Number),
      limits: [
        'values of the new column public.item.extra',
        'NULL in public.item.note',
        'values that integer does not take in public.item.size',
        'values that character varying(5) does not take in public.item.short',
        'labels that public.state does not have in public.item.state',
        'rows that violate positive of public.item',
        'rows that violate item_code_key of public.item',
        'rows of new tables: public.fresh',
      ],
    });
    // The name of the original is of no use to applications.
    await ask("CREATE ROLE shopper LOGIN PASSWORD 'shopperpass'");
    const shopper = new URL(inDatabase(server.url, original));
    [shopper.username, shopper.password] = ['shopper', 'shopperpass'];
    await expect(withClient(shopper.href, async () => {})).rejects.toMatchObject({ code: '53300' });
    await ask('DROP ROLE shopper');

    await ask("UPDATE item SET parent = 7, extra = 3, note = 'x' WHERE id = 1");
    const orphan = await rollback();
    expect(orphan.stderr).toContain(
      'foreign key of_parent of public.item is violated by 1 row that production wrote',
    );
    expect(orphan.exitCode).toBe(4);
    await ask('UPDATE item SET parent = 1');

    await ask("INSERT INTO item VALUES (2, NULL, 5000000000, 'longer', 'gone', 1, 1, -1)");
    await until('the way back stops', async () => (await wayBack()).broken?.kind === 'stopped');
    const stopped = await rollback();
    expect(stopped.exitCode).toBe(4);
    for (const what of [
      'NULL in public.item.note',
      'values that integer does not take in public.item.size',
      'values that character varying(5) does not take in public.item.short',
      'labels that public.state does not have in public.item.state',
      'rows that violate positive of public.item',
      'rows that violate item_code_key of public.item',
    ])
      expect(stopped.stderr).toContain(`${what}: 1 row`);

    for (let segment = 0; segment < 6; segment++)
      await ask("SELECT pg_logical_emit_message(false, 'test', ''), pg_switch_wal()");
    await ask('CHECKPOINT');
    expect(await wayBack()).toMatchObject({
      broken: { kind: 'lost', reason: expect.stringContaining('max_slot_wal_keep_size') },
    });
    const lost = await rollback();
    expect(lost).toMatchObject({ exitCode: 4, stderr: expect.stringContaining('does not follow any more') });
    const given = await rollback('--discard-writes');
    expect(given, given.stderr).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(
        /\d+ rows were written since the swap, and it is not known how many of them/,
      ),
    });
    // It has got what came before the row that it cannot have.
    expect(await ask('SELECT * FROM item')).toEqual([
      { id: 1, note: 'x', size: 1, short: 's', state: 'new', code: 1, parent: 1, amount: 1 },
    ]);
  });

  test('is refused beforehand for what it cannot follow, and keeps rows of new tables', {
    timeout,
  }, async () => {
    const refused = await swap('ALTER TABLE item RENAME COLUMN note TO remark');
    expect(refused).toMatchObject({ exitCode: 4, swap: { outcome: 'refused' } });
    expect(refused.swap.reasons).toEqual([
      'no way back: public.item.note: it becomes remark, and replication uses names; swap it without --way-back',
    ]);
    expect(await left()).toEqual([]);
    await swap('CREATE TABLE fresh (id int PRIMARY KEY)');
    await ask('INSERT INTO fresh VALUES (1)');
    const fresh = await rollback();
    const inFresh = expect.stringContaining(
      'does not get all rows: 1 row was written in public.fresh since the swap',
    );
    expect(fresh).toMatchObject({ exitCode: 4, stderr: inFresh });
    const again = await swap('SELECT 1');
    expect(again.error.message).toContain('the original of an earlier swap follows it');
    const given = await rollback('--discard-writes', '--format', 'json');
    expect(JSON.parse(given.stdout).swap, given.stderr).toMatchObject({
      outcome: 'swapped',
      original: null,
      rolledBack: expect.stringContaining('_rolledback_'),
      givenUp: { rows: 1, reason: null, tables: ['public.fresh'] },
    });
  });

  test('ends by itself at its time', { timeout }, async () => {
    const { online } = (await swap('ALTER TABLE item ADD COLUMN extra int', '3s')).swap;
    const { until: end, watchdogPid } = online.wayBack;
    expect(isAlive(watchdogPid)).toBe(true);
    await until('it has ended', async () => (await left()).length === 0);
    expect(Date.now()).toBeGreaterThan(Date.parse(end));
    await until('its watchdog ends', async () => !isAlive(watchdogPid));
    expect(await wayBack()).toBeNull();
  });

  test('is ended by clean if its watchdog is gone', { timeout }, async () => {
    const { online } = (await swap('ALTER TABLE item ADD COLUMN extra int', '3s')).swap;
    // A machine that shuts down asks so.
    process.kill(online.wayBack.watchdogPid, 'SIGTERM');
    await until('its watchdog ends', async () => !isAlive(online.wayBack.watchdogPid));
    await until('its time is over', async () => Date.parse((await wayBack()).until) < Date.now());
    expect(await left()).not.toEqual([]);
    const cleaned = await safemigrate(['clean', '--url', url]);
    expect(cleaned.stdout).toMatch(/^dropped way back of app_before_/m);
    expect(await left()).toEqual([]);
    expect(await wayBack()).toBeNull();
  });

  /** Kills safemigrate as soon as the last of these requests was answered. Its reopen agent does the rest. */
  async function killed(words: readonly string[], place: readonly RegExp[]): Promise<void> {
    const steps = [...place];
    let agent: number | undefined;
    const relay = await startRelay(server.url, async (_, request) => {
      if (!steps[0]?.test(request)) return 'forward';
      steps.shift();
      if (steps.length > 0) return 'forward';
      agent = await guardOf(Number(child.pid));
      return { onAnswer: () => void child.kill('SIGKILL') };
    });
    const through = new URL(url);
    through.port = String(relay.port);
    through.searchParams.set('sslmode', 'disable');
    const child = spawn(PROGRAM[0], [...PROGRAM.slice(1), ...words], {
      env: { ...plainEnvironment(), SAFEMIGRATE_CLONE: 'template', DATABASE_URL: through.href },
      stdio: 'ignore',
    });
    try {
      await once(child, 'close');
      expect({ signal: child.signalCode, steps }).toEqual({ signal: 'SIGKILL', steps: [] });
      await until('the reopen agent ends', async () => !isAlive(Number(agent)));
    } finally {
      child.kill('SIGKILL');
      await relay.close();
    }
  }

  const isAlive = (pid: number) => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };

  const RENAMED = [/^ALTER DATABASE "app" RENAME/, /^COMMIT/];

  const unfinished = [
    ['renamed', RENAMED],
    ['subscribed', [...RENAMED, /^CREATE SUBSCRIPTION/, /^COMMIT/]],
    ['enabled', [...RENAMED, /^ALTER SUBSCRIPTION .* ENABLE/]],
  ] as const;
  test.each(inThisShare(unfinished))(
    'that a killed swap has not finished is ended: %s',
    { timeout },
    async (_, place) => {
      const words = ['swap', '--online', '--way-back', '1h', '--yes', '--limit', 'cut-over=10s'];
      await killed([...words, '--', ...sqlCommand('ALTER TABLE item ADD COLUMN extra int')], place);
      expect(await ask('SELECT extra FROM item')).toEqual([{ extra: null }]);
      expect(await left()).toEqual([]);
      expect(await wayBack()).toBeNull();
    },
  );

  const DISABLED = [/^ALTER SUBSCRIPTION .* DISABLE/, /^COMMIT/];

  test('continues after each rollback that is killed, and keeps all writes', {
    timeout: 240_000,
  }, async () => {
    await swapped();
    const words = ['rollback', '--yes', '--limit', 'cut-over=10s'];
    const insert = (id: number) =>
      ask(`INSERT INTO item (id, note, code, amount) VALUES (${id}, 'n', ${id}, 1)`);
    for (const [at, place] of [
      [/^ALTER DATABASE "app" ALLOW_CONNECTIONS false/, /^COMMIT/],
      DISABLED,
      [...DISABLED, /^ALTER DATABASE "app_before_\w+" ALLOW_CONNECTIONS false/, /^COMMIT/],
    ].entries()) {
      await killed(words, place);
      await until('it follows', async () => (await wayBack()).broken === null);
      await insert(10 + at);
    }
    await killed(words, RENAMED);
    expect(await left()).toEqual([]);
    expect((await ask('SELECT id FROM item ORDER BY id')).map(({ id }) => id)).toEqual([1, 10, 11, 12]);
    // It is the original: it has its constraint.
    await expect(ask('INSERT INTO item (id) VALUES (99)')).rejects.toMatchObject({ code: '23502' });
  });
});
