import { mkdtempSync, rmSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newestClientPrograms } from '../../src/local-server/client-programs.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { startTraffic } from '../helpers/traffic.ts';

const TABLES = `
CREATE TABLE a (id int PRIMARY KEY, v int NOT NULL DEFAULT 0);
CREATE TABLE b (id int PRIMARY KEY, v int NOT NULL DEFAULT 0);
INSERT INTO a SELECT generate_series(1, 20000);
INSERT INTO b SELECT generate_series(1, 20000)`;
const FIRST_B = ['UPDATE b SET v = v + 1 WHERE id = $1', 'UPDATE a SET v = v + 1 WHERE id = $1'] as const;
const LOAD = ['--load'];
const CLUSTER = {
  SAFEMIGRATE_CLONE: 'cluster',
  SAFEMIGRATE_LOAD_WINDOW: '2s',
  SAFEMIGRATE_LOAD_WARMUP: '1s',
};
/** Two tables in one transaction, with time for others to come in between. */
const both = (first: string, second: string, seconds = 0.5) =>
  sqlCommand(
    `BEGIN; ALTER TABLE ${first} ADD COLUMN w int; SELECT pg_sleep(${seconds}); ALTER TABLE ${second} ADD COLUMN w int; COMMIT`,
  );

beforeAll(() => useOwnServers(14, 18, 19));

describe('under the traffic that the target has', () => {
  test('two tables that are locked in the opposite order are a deadlock, and the target is not touched', async () => {
    const target = await temporaryDatabase(14, { sql: TABLES });
    const traffic = await startTraffic(target.url, 6, FIRST_B);
    try {
      const { report, exitCode } = await rehearse(target.url, both('a', 'b'), { env: CLUSTER, args: LOAD });
      expect(exitCode).toBe(1);
      const { load } = report;
      expect(load?.source).toBe('shapes');
      // Whoever has waited longest at that moment is rolled back.
      expect(load?.command.schemaEqual).toBe(load?.command.exitCode === 0 ? true : null);
      expect(load?.before.transactions).toBeGreaterThan(10);
      expect(load?.mostWaiting).toBeGreaterThan(0);
      expect(load?.seconds.length).toBeGreaterThan(1);
      expect(load?.deadlocks[0]?.detail).toMatch(/waits for \w+ on public\.[ab]/);
      expect(load?.deadlocks[0]?.detail).toMatch(/The command \(process \d+\) waits/);
      expect(load?.deadlocks[0]?.detail).toMatch(/blocked by the load \(process \d+\)/);
      expect(load?.statements[1]?.sql).toBe(report.statements[1]?.sql);
      expect(load?.statements[1]?.locks?.map(({ relation }) => relation)).toContain('public.a');
      expect(load?.someWaitedMs).toBeGreaterThan(0);
      expect(load?.pool?.needed).toBeGreaterThan(load?.pool?.open ?? 0);
      expect(load?.blocked.map(({ relation }) => relation)).toContain('public.a');
      expect(report.hazards.map(({ code }) => code)).toContain('DEADLOCK');
      expect(report.cleanup.failed).toEqual([]);
      expect(report.target.changes).toEqual([]);
    } finally {
      await traffic.stop();
    }
  }, 60_000);

  test('a profile holds the traffic, so that a rehearsal without any finds the deadlock as well', async () => {
    const target = await temporaryDatabase(18, { sql: TABLES });
    const env = { ...CLUSTER, DATABASE_URL: target.url };
    const file = path.join(mkdtempSync(path.join(tmpdir(), 'safemigrate-profile-')), 'profile.json');
    const traffic = await startTraffic(target.url, 6, FIRST_B);
    try {
      const { exitCode, stderr } = await safemigrate(['profile', '--out', file, '--window', '3'], { env });
      expect(exitCode, stderr).toBe(0);
    } finally {
      await traffic.stop();
    }
    const { report } = await rehearse(target.url, both('a', 'b'), {
      env,
      args: ['--profile', file, '--load'],
    });
    rmSync(path.dirname(file), { recursive: true });
    expect(report.load?.origin).toMatch(/seen by the profile of /);
    expect(report.load?.before.failures).toBe(0);
    expect(report.hazards.map(({ code }) => code)).toContain('DEADLOCK');
  }, 60_000);

  test('fast and slow transactions on the same table are played as often as they were counted', async () => {
    const target = await temporaryDatabase(18, { sql: TABLES });
    const slow = 'SELECT pg_sleep(CASE WHEN random() < 0.05 THEN 0.15 ELSE 0 END)';
    const traffic = await startTraffic(target.url, 6, [FIRST_B[0], slow], 60);
    try {
      const { report } = await rehearse(target.url, sqlCommand('ALTER TABLE b ADD COLUMN w int'), {
        env: { ...CLUSTER, SAFEMIGRATE_LOAD_WINDOW: '6s', SAFEMIGRATE_LOAD_WARMUP: '3s' },
        args: LOAD,
      });
      const { wanted, played } = report.load?.rate ?? {};
      expect(wanted).toBeGreaterThan(20);
      expect((played ?? 0) / (wanted ?? 1)).toBeGreaterThan(0.6);
      expect((played ?? 0) / (wanted ?? 1)).toBeLessThan(1.5);
    } finally {
      await traffic.stop();
    }
  }, 60_000);

  test('the same tables in the order of the traffic are none, and only wait, as the server itself counts', async () => {
    const target = await temporaryDatabase(19, { sql: TABLES });
    const traffic = await startTraffic(target.url, 6, FIRST_B);
    try {
      const { report } = await rehearse(target.url, both('b', 'a', 1.5), { env: CLUSTER, args: LOAD });
      expect(report.load?.deadlocks).toEqual([]);
      expect(report.load?.longestWaitMs).toBeGreaterThan(1000);
      // Who waits for a row waits for the transaction that has locked it, and that for the relation.
      const { kinds, longerThanMs } = report.load?.lockWaits ?? {};
      expect(longerThanMs).toBe(1000);
      const relations = kinds?.find(({ kind }) => kind === 'relation');
      expect(relations?.waits).toBeGreaterThan(0);
      expect(relations?.waitedMs).toBeGreaterThan(1000);
      const codes = report.hazards.map(({ code }) => code);
      expect(codes).not.toContain('DEADLOCK');
      // The traffic was seen to lock them in this order.
      expect(codes).not.toContain('DEADLOCK_RISK');
      expect(codes).toContain('TRAFFIC_BLOCKED');
    } finally {
      await traffic.stop();
    }
  }, 60_000);
});

describe('an apply under the traffic that the target has', () => {
  test('is tried with its guardrails, which decide whether it may go ahead', async () => {
    const target = await temporaryDatabase(18, { sql: TABLES });
    const traffic = await startTraffic(target.url, 6, FIRST_B);
    const apply = (command: string, ...args: string[]) =>
      rehearse(target.url, sqlCommand(command), {
        env: CLUSTER,
        args: ['apply', ...LOAD, '--yes', ...args],
      });
    try {
      const held = 'BEGIN; ALTER TABLE a ADD COLUMN w int; SELECT pg_sleep(3); COMMIT';
      const refused = await apply(held, '--limit', 'blocked=500ms');
      const { load } = refused.report;
      expect(load?.command.exitCode).toBe(0);
      expect(load?.longestWaitMs).toBeGreaterThan(2000);
      expect(load?.guarded?.command.exitCode).not.toBe(0);
      expect(load?.guarded?.guardrails?.cancelled[0]?.reason).toBe('max-blocked');
      expect(load?.guarded?.longestWaitMs).toBeLessThan(load?.longestWaitMs ?? 0);
      expect(refused.report.verdict.reasons).toContain(
        'the command failed under load, with the guardrails of an apply',
      );
      expect(refused.report.apply?.outcome).toBe('refused');
      const applied = await apply('ALTER TABLE a ADD COLUMN w int');
      expect(applied.report.load?.guarded).toMatchObject({ command: { exitCode: 0, schemaEqual: true } });
      expect(applied.report.apply?.outcome).toBe('applied');
      expect(applied.report.cleanup.failed).toEqual([]);
    } finally {
      await traffic.stop();
    }
  }, 120_000);
});

describe('a run under load', async () => {
  const found = await newestClientPrograms(['pgbench']);
  const noPgbench = skipReason(found && found.major >= 15 ? null : 'pgbench 15 or newer is not installed');
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'safemigrate-load-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  test.skipIf(noPgbench)(
    'plays scripts of pgbench, and says what they felt',
    async () => {
      const target = await temporaryDatabase(18, { sql: TABLES });
      const script = path.join(folder, 'read.sql');
      await writeFile(script, '\\set id random(1, 20000)\nUPDATE a SET v = v + 1 WHERE id = :id;\n');
      const command = sqlCommand('BEGIN; ALTER TABLE a RENAME COLUMN v TO w; SELECT pg_sleep(0.5); COMMIT');
      const { report } = await rehearse(target.url, command, {
        env: { ...CLUSTER, SAFEMIGRATE_LOAD_RATE: '200', SAFEMIGRATE_LOAD_CLIENTS: '3' },
        args: ['--load', script],
      });
      expect(report.load).toMatchObject({ source: 'pgbench', clients: 3 });
      expect(report.load?.before).toMatchObject({ failures: 0, transactions: expect.any(Number) });
      expect(report.load?.before.transactions).toBeGreaterThan(50);
      expect(report.load?.failures[0]?.message).toMatch(/column "v" does not exist/);
      expect(report.hazards.map(({ code }) => code)).toEqual(
        expect.arrayContaining(['TRAFFIC_FAILS', 'TRAFFIC_BLOCKED']),
      );
    },
    60_000,
  );

  test('lets a command of the user’s make the load, on the clone', async () => {
    const target = await temporaryDatabase(18, { sql: TABLES });
    const shell = `while psql -qXc 'UPDATE a SET v = v + 1 WHERE id = 1' "$DATABASE_URL"; do :; done`;
    const { report } = await rehearse(target.url, sqlCommand('ALTER TABLE a ADD COLUMN w int'), {
      env: CLUSTER,
      args: ['--load-command', shell],
    });
    expect(report.load).toMatchObject({ source: 'command', origin: shell });
    expect(report.load?.before.transactions).toBeGreaterThan(0);
    expect(report.load?.before.failures).toBe(0);
    await withClient(target.url, async (client) => {
      expect((await client.query('SELECT v FROM a WHERE id = 1')).rows).toEqual([{ v: 0 }]);
    });
  }, 60_000);

  test('is refused in the target’s own server, before anything is made', async () => {
    const target = await temporaryDatabase(18, { sql: TABLES });
    const { exitCode, stderr } = await safemigrate(['--load', '--', ...sqlCommand('SELECT 1')], {
      env: { DATABASE_URL: target.url },
    });
    expect(exitCode).toBe(3);
    expect(stderr).toMatch(/--load needs a clone on a server of its own/);
    expect(stderr).toMatch(/--permit load-here/);
  });

  test('may be in the target’s own server by --permit load-here, where guardrails are not tried', async () => {
    const target = await temporaryDatabase(18, { sql: TABLES });
    const shell = `while psql -qXc 'UPDATE a SET v = v + 1 WHERE id = 1' "$DATABASE_URL"; do :; done`;
    const { report } = await rehearse(target.url, sqlCommand('ALTER TABLE a ADD COLUMN w int'), {
      env: { ...CLUSTER, SAFEMIGRATE_CLONE: 'template' },
      args: ['--load-command', shell, '--permit', 'load-here', 'apply', '--yes'],
    });
    expect(report.clone.isolation).toBe('same-cluster');
    expect(report.load?.before.transactions).toBeGreaterThan(0);
    expect(report.load?.command).toMatchObject({ exitCode: 0, schemaEqual: true });
    expect(report.load?.guarded).toBeNull();
    expect(report.caveats.find(({ path }) => path === 'load.guarded')?.reason).toMatch(
      /in the target's server/,
    );
    expect(report.apply?.outcome).toBe('applied');
    await withClient(target.url, async (client) => {
      expect((await client.query('SELECT v FROM a WHERE id = 1')).rows).toEqual([{ v: 0 }]);
    });
  }, 60_000);

  test('does not pass if the load ends before the command, and the run ends all the same', async () => {
    const target = await temporaryDatabase(18, { sql: TABLES });
    const { report, exitCode } = await rehearse(target.url, sqlCommand('ALTER TABLE a ADD COLUMN w int'), {
      env: CLUSTER,
      args: ['--load-command', 'exit 3'],
    });
    expect(exitCode).toBe(1);
    expect(report.load).toBeNull();
    expect(report.verdict.reasons.join()).toMatch(/The load ended by itself: exit 3 ended with exit code 3/);
  });

  test('does not pass if nobody was seen at work', async () => {
    const target = await temporaryDatabase(18, { sql: TABLES });
    const { report, exitCode } = await rehearse(target.url, sqlCommand('ALTER TABLE a ADD COLUMN w int'), {
      env: { ...CLUSTER, SAFEMIGRATE_LOAD_WINDOW: '500ms' },
      args: LOAD,
    });
    expect(exitCode).toBe(1);
    expect(report.load).toBeNull();
    expect(report.verdict.reasons.join()).toMatch(/not run under load: no session was seen at work/);
    await withClient(target.url, async (client) => {
      expect((await client.query('SELECT count(*)::int AS n FROM a')).rows).toEqual([{ n: 20000 }]);
    });
  });
});
