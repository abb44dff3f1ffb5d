import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import type { Server } from '../../src/local-server/embedded.ts';
import { closedWords } from '../../src/report/sections/swap-view.ts';
import { performSwap } from '../../src/swap/perform-swap.ts';
import { makeSwapPlan } from '../../src/swap/swap-plan.ts';
import { DURATION } from '../../src/value-types.ts';
import {
  type CliResult,
  inTerminal,
  noTerminal,
  safemigrate,
  sqlCommand,
  temporaryFolder,
} from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { until } from '../helpers/cutting.ts';
import { onlineTarget } from '../helpers/online-trials.ts';
import { ownServer } from '../helpers/own-server.ts';
import { OLDEST_AND_NEWEST } from '../helpers/servers.ts';
import { SHADOWED_TABLES, startShadowedWriters } from '../helpers/shadowed-writers.ts';
import { inThisShare } from '../helpers/share.ts';
import { databasesBeside, inDatabase } from '../helpers/swapping.ts';
import { type OnlineSwap, swapsUnderLoad } from '../helpers/swaps-under-load.ts';

/** Between two transactions of a client: without it they would take all processors. */
const PAUSE_MS = 20;
const MIGRATION = 'ALTER TABLE lines ALTER COLUMN order_id TYPE bigint';
/** A new column for the old rows and, from the swap on, by a trigger: it does not fire for rows that are replicated. */
const BACKFILL = `ALTER TABLE orders ADD COLUMN twice int; UPDATE orders SET twice = 2 * amount WHERE amount IS NOT NULL;
  CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.twice := 2 * NEW.amount; RETURN NEW; END';
  CREATE TRIGGER fill BEFORE INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION fill()`;
const NOT_FILLED = 'DROP FUNCTION fill() CASCADE; ALTER TABLE orders DROP COLUMN twice; TRUNCATE events';
const DERIVED = 'UPDATE orders SET amount = amount + 1 WHERE id IN (SELECT order_id FROM lines)';

/** A server whose database app has the tables of the writers. */
async function shop(version: ServerVersion, settings: Record<string, string>): Promise<[Server, string]> {
  const server = await ownServer(version, { settings });
  const url = inDatabase(server.url, 'app');
  await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
  await withClient(url, (client) => client.query(SHADOWED_TABLES));
  return [server, url];
}

function swapOnline(url: string, ...more: string[]): Promise<CliResult> {
  return safemigrate(['--url', url, 'swap', '--online', '--yes', '--format', 'json', ...more]);
}

/** Waits until an online swap waits for the order to cut over. */
function untilItWaits(url: string): Promise<void> {
  return until('it waits', async () => {
    const { stdout } = await safemigrate(['list', '--url', url]);
    return stdout.includes('safemigrate cut-over');
  });
}

function swapOf({ stdout, stderr }: CliResult) {
  if (stdout === '') throw new Error(`no report:\n${stderr}`);
  return JSON.parse(stdout).swap;
}

async function leftOfReplication(url: string): Promise<string[]> {
  const { rows } = await withClient(url, (client) =>
    client.query<{ name: string }>(
      `SELECT slot_name::text AS name FROM pg_replication_slots UNION ALL SELECT subname::text FROM pg_subscription
       UNION ALL SELECT pubname::text FROM pg_publication UNION ALL SELECT roname FROM pg_replication_origin`,
    ),
  );
  return rows.map(({ name }) => name);
}

/** Time that a step of the swap took, each time. */
function timesOf({ steps }: OnlineSwap, step: string): number[] {
  return steps.filter(({ name }) => name === step).map(({ durationMs }) => durationMs);
}

/** Swaps on each version; `soak/online-swap.test.ts` has 50. The tests below run on 18. */
const IN_A_ROW = 2;

describe.each(OLDEST_AND_NEWEST)('PostgreSQL %i, swap --online', (version) => {
  const target = onlineTarget(version);

  test('several in a row keep what clients write, report their costs, and are not taken back over what they wrote since', {
    timeout: 300_000,
  }, async () => {
    const { url } = target();
    const audit = path.join(temporaryFolder(), 'audit.jsonl');
    const { done } = await swapsUnderLoad(target(), {
      swaps: IN_A_ROW,
      writers: 8,
      pauseMs: PAUSE_MS,
      through: url,
      options: ['--audit', audit],
    });
    expect(done).toHaveLength(IN_A_ROW);
    for (const swap of done) {
      const { online } = swap;
      expect(online).toMatchObject({
        cloneClosedMs: expect.any(Number),
        cloneGapMs: expect.any(Number),
        catchUpMs: expect.any(Number),
        compareMs: expect.any(Number),
        attempts: expect.any(Number),
        cutOverAtMs: expect.any(Number),
        cutOverClosedMs: expect.any(Number),
        cutOverGapMs: expect.any(Number),
      });
      expect(online.rowsCompared).toBeGreaterThan(10);
      // A session may get answers until the step that closes the target has ended it, and connects once it is open again.
      const [firstCloseMs = 0, lastCloseMs = 0] = [
        timesOf(swap, 'close').at(0),
        timesOf(swap, 'close').at(-1),
      ];
      expect(online.cloneGapMs).toBeGreaterThan((online.cloneClosedMs ?? 0) - firstCloseMs);
      expect(online.cutOverGapMs).toBeGreaterThan((online.cutOverClosedMs ?? 0) - lastCloseMs);
      expect(online.lag.length).toBeGreaterThan(2);
      expect(online.lag.length).toBeLessThanOrEqual(60);
      expect(online.lag[0]).toEqual({ atMs: expect.any(Number), behindBytes: 0 });
      expect(Math.max(...online.lag.map(({ behindBytes }) => behindBytes))).toBeGreaterThan(1_000);
      expect(online.lag.map(({ atMs }) => atMs)).toEqual(
        online.lag.map(({ atMs }) => atMs).toSorted((one, other) => one - other),
      );
      expect(online.cutOverAtMs).toBeGreaterThan(online.lag[1]?.atMs ?? 0);
    }
    const sent = readFileSync(audit, 'utf8');
    expect(sent).toContain('pg_create_logical_replication_slot');
    expect(sent).toContain('CREATE SUBSCRIPTION');
    expect(sent).not.toContain(new URL(url).password || 'password=');
    expect(await leftOfReplication(url)).toEqual([]);

    const back = await safemigrate(['rollback', '--yes', '--url', url]);
    expect(back).toMatchObject({
      exitCode: 4,
      stderr: expect.stringContaining(version === 14 ? 'on PostgreSQL 14' : 'written since the swap'),
    });
  });
});

/** Rows of the target that are there before. */
const OF_NO_WRITER = /^extra: (order \d+ \d+ n \d+|line \d+ \d+ pen)$/;

describe('swap --online', () => {
  let server: Server;
  let url: string;
  beforeAll(async () => {
    [server, url] = await shop(18, { wal_level: 'logical', max_slot_wal_keep_size: '1GB' });
    await withClient(url, (client) =>
      client.query(`INSERT INTO orders (client, note, amount) SELECT n, 'n', n FROM generate_series(1, 500) n;
        INSERT INTO lines (order_id, item) SELECT id, 'pen' FROM orders`),
    );
  });
  afterAll(() => server.stop());

  async function expectUntouched() {
    expect(await leftOfReplication(url)).toEqual([]);
    expect(await databasesBeside(server.url)).toEqual(['app']);
    await withClient(url, (client) => client.query('INSERT INTO markers VALUES (gen_random_uuid())'));
  }

  test('refuses a migration that a clone cannot follow, by name', { timeout: 120_000 }, async () => {
    const refused = await swapOnline(url, '--', ...sqlCommand(DERIVED));
    expect({ exitCode: refused.exitCode, swap: swapOf(refused) }).toMatchObject({
      exitCode: 4,
      swap: {
        outcome: 'refused',
        reasons: [
          expect.stringMatching(/^public.orders: the command wrote 500 rows .*swap it without --online/),
        ],
        online: { cloneClosedMs: null },
      },
    });
    await expectUntouched();
  });

  /** Drops the originals, for the tests that follow. */
  async function cleaned() {
    await safemigrate(['clean', '--originals', '--rolled-back', '--older-than', '0s', '--url', url]);
    await expectUntouched();
  }

  test('fills a new column again from what clients have written, and says what is not proved', {
    timeout: 120_000,
  }, async () => {
    const script = path.join(temporaryFolder(), 'again.sql');
    writeFileSync(script, 'UPDATE orders SET twice = 2 * amount WHERE twice IS DISTINCT FROM 2 * amount');
    const writers = startShadowedWriters(url, 2, PAUSE_MS);
    try {
      await until('clients write', async () => writers.committed() > 10);
      const swapped = await swapOnline(
        url,
        ...['--clone', 'cluster', '--limit', 'cut-over=5s', '--catch-up', script],
        ...['--', ...sqlCommand(BACKFILL)],
      );
      expect(swapOf(swapped), swapped.stderr).toMatchObject({
        outcome: 'swapped',
        online: { notCompared: ['public.orders.twice'], postponedMs: null },
      });
      const before = writers.committed();
      await until('clients write on', async () => writers.committed() > before + 10);
    } finally {
      await writers.stop();
    }
    const { wrong } = await writers.compare(url);
    expect(wrong.filter((row) => !OF_NO_WRITER.test(row))).toEqual([]);
    const { rows } = await withClient(url, (client) =>
      client.query('SELECT count(*)::int AS wrong FROM orders WHERE twice IS DISTINCT FROM 2 * amount'),
    );
    expect(rows).toEqual([{ wrong: 0 }]);
    await withClient(url, (client) => client.query(NOT_FILLED));
    await cleaned();
  });

  const refusedScripts: [string, RegExp][] = [
    ['COMMIT', /--catch-up: it may only INSERT/],
    ['UPDATE nowhere SET a = 1', /--catch-up fails on the clone: .*nowhere.*42P01/],
    [
      'UPDATE orders SET amount = 0 WHERE id = 1',
      /--catch-up fails on the clone: it changes what the target has in public.orders/,
    ],
  ];
  test.each(inThisShare(refusedScripts))(
    'refuses --catch-up with %s before the target is touched',
    async (sql, message) => {
      const script = path.join(temporaryFolder(), 'wrong.sql');
      writeFileSync(script, sql);
      const refused = await swapOnline(url, '--catch-up', script, '--', ...sqlCommand(BACKFILL));
      expect(refused.exitCode).not.toBe(0);
      const reasons = refused.stdout === '' ? '' : JSON.stringify(swapOf(refused));
      expect(refused.stderr + reasons).toMatch(message);
      await expectUntouched();
    },
  );

  const badScripts: [string, string, string, RegExp][] = [
    [
      'changes a column that the target has',
      'UPDATE orders SET twice = twice',
      `${BACKFILL}; UPDATE orders SET amount = amount + 1`,
      /other values in the clone/,
    ],
    [
      'takes too long each time',
      'UPDATE orders SET twice = twice WHERE id = 1 AND pg_sleep(0.3) IS NOT NULL',
      BACKFILL,
      /^--catch-up takes .* each time/,
    ],
  ];
  test.each(inThisShare(badScripts))(
    'gives up with --catch-up if it %s',
    { timeout: 120_000 },
    async (_, sql, migration, reason) => {
      const script = path.join(temporaryFolder(), 'again.sql');
      writeFileSync(script, sql);
      const undone = await swapOnline(url, '--catch-up', script, '--', ...sqlCommand(migration));
      expect(swapOf(undone), undone.stderr).toMatchObject({
        outcome: 'undone',
        reasons: [expect.stringMatching(reason)],
      });
      await expectUntouched();
    },
  );

  /** Lets the swap cut over while a transaction writes, which the swap waits for. */
  async function removeWhileOneWrites(file: string) {
    await withClient(url, async (holder) => {
      await holder.query("BEGIN; INSERT INTO orders (client, note, amount) VALUES (-2, 'long', 1)");
      const looks = new Set<string>();
      await withClient(url, async (client) => {
        await until('it writes for long', async () => {
          const { rows } = await client.query<{ long: boolean }>(
            "SELECT now() - xact_start > '3 s' AS long FROM pg_stat_activity WHERE query LIKE 'BEGIN; INSERT INTO orders%'",
          );
          return rows[0]?.long ?? false;
        });
        rmSync(file);
        await until('the swap has seen it several times', async () => {
          const { rows } = await client.query<{ at: string }>(
            `SELECT query_start::text AS at FROM pg_stat_activity
              WHERE pid <> pg_backend_pid() AND query LIKE '%xact_start < now()%' AND state = 'idle'`,
          );
          for (const { at } of rows) looks.add(at);
          return looks.size > 2;
        });
      });
      await holder.query('COMMIT');
    });
  }

  test('waits with the cut-over until the file is removed or the order is given, and for a transaction that writes', {
    timeout: 180_000,
  }, async () => {
    const file = path.join(temporaryFolder(), 'postponed');
    for (const how of ['file', 'order'] as const) {
      const swapping = swapOnline(url, '--postpone-file', file, '--', ...sqlCommand(MIGRATION));
      await untilItWaits(url);
      expect(existsSync(file)).toBe(true);
      await withClient(url, (client) =>
        client.query(`INSERT INTO orders (client, note, amount) VALUES (-1, '${how}', 1)`),
      );
      if (how === 'file') await removeWhileOneWrites(file);
      else {
        expect(await safemigrate(['cut-over', 'nonesuch', '--url', url])).toMatchObject({
          exitCode: 2,
          stderr: expect.stringContaining('but these do'),
        });
        expect(await safemigrate(['cut-over', '--url', url])).toMatchObject({ exitCode: 0 });
      }
      const swapped = await swapping;
      expect(swapOf(swapped), swapped.stderr).toMatchObject({
        outcome: 'swapped',
        online: { postponedMs: expect.any(Number) },
      });
      expect(existsSync(file)).toBe(false);
      const { rows } = await withClient(url, (client) =>
        client.query('SELECT note FROM orders WHERE client = -1 ORDER BY id DESC LIMIT 1'),
      );
      expect(rows).toEqual([{ note: how }]);
      await withClient(url, (client) => client.query('ALTER TABLE lines ALTER COLUMN order_id TYPE int'));
      await cleaned();
    }
    const { rows: long } = await withClient(url, (client) =>
      client.query("SELECT count(*)::int AS n FROM orders WHERE note = 'long'"),
    );
    expect(long).toEqual([{ n: 1 }]);
    const none = await safemigrate(['cut-over', '--url', url]);
    expect(none).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('No online swap on') });
  });

  test('gives up if --catch-up changes what the target has after the comparison', {
    timeout: 120_000,
  }, async () => {
    const folder = temporaryFolder();
    const [script, file] = [path.join(folder, 'again.sql'), path.join(folder, 'postponed')];
    writeFileSync(script, "UPDATE orders SET amount = 0 WHERE note = 'late'");
    const swapping = swapOnline(
      url,
      ...['--catch-up', script, '--postpone-file', file, '--', ...sqlCommand(BACKFILL)],
    );
    await untilItWaits(url);
    await withClient(url, (client) =>
      client.query("INSERT INTO orders (client, note, amount) VALUES (-1, 'late', 1)"),
    );
    rmSync(file);
    const undone = await swapping;
    expect(swapOf(undone), undone.stderr).toMatchObject({
      outcome: 'undone',
      reasons: [expect.stringMatching(/--catch-up fails on the clone: it changes .* public.orders/)],
    });
    await withClient(url, (client) => client.query("DELETE FROM orders WHERE note = 'late'"));
    await expectUntouched();
  });

  test('gives up while it waits for its order if others change the schema, and removes its file', {
    timeout: 120_000,
  }, async () => {
    const file = path.join(temporaryFolder(), 'postponed');
    const swapping = swapOnline(url, '--postpone-file', file, '--', ...sqlCommand(MIGRATION));
    await untilItWaits(url);
    await withClient(url, (client) => client.query('CREATE TABLE meanwhile ()'));
    const undone = await swapping;
    expect(swapOf(undone)).toMatchObject({
      outcome: 'undone',
      reasons: [expect.stringContaining('catalogues were written')],
      online: { attempts: null, postponedMs: null },
    });
    expect(existsSync(file)).toBe(false);
    await withClient(url, (client) => client.query('DROP TABLE meanwhile'));
    await expectUntouched();
  });

  test('gives up beyond the WAL that the server may keep, and the target is open', {
    timeout: 120_000,
  }, async () => {
    // More than the clone itself writes, whose WAL counts as well.
    const slow = `${MIGRATION}; SELECT pg_logical_emit_message(false, 'x', repeat('y', 40000000)); SELECT pg_sleep(3)`;
    const undone = await swapOnline(url, '--limit', 'kept-wal=20MB', '--', ...sqlCommand(slow));
    expect({ exitCode: undone.exitCode, swap: swapOf(undone) }).toMatchObject({
      exitCode: 4,
      swap: {
        outcome: 'undone',
        reasons: [expect.stringContaining('more than --limit kept-wal allows')],
        online: { cloneClosedMs: expect.any(Number), cutOverClosedMs: null },
      },
    });
    await expectUntouched();
  });

  test('gives up if the cut-over would take longer than its limit, and the target is open', {
    timeout: 120_000,
  }, async () => {
    await withClient(url, (client) =>
      client.query(`CREATE TABLE many AS SELECT n AS id, n % 500 + 1 AS order_id FROM generate_series(1, 200000) n;
        ALTER TABLE many ADD PRIMARY KEY (id)`),
    );
    const key = 'ALTER TABLE many ADD CONSTRAINT of_order FOREIGN KEY (order_id) REFERENCES orders';
    const undone = await swapOnline(url, '--limit', 'cut-over=5ms', '--', ...sqlCommand(key));
    expect({ exitCode: undone.exitCode, swap: swapOf(undone) }).toMatchObject({
      exitCode: 4,
      swap: {
        outcome: 'undone',
        reasons: [expect.stringMatching(/\(of_order of public.many\).* --limit cut-over allows/)],
        online: { attempts: null, cutOverClosedMs: null },
      },
    });
    await expectUntouched();
  });

  test('says the limit that would have done if it gives up, and counts every closing', {
    timeout: 120_000,
  }, async () => {
    // The hand-over has a time limit; the runs before it, which have to be short, have none.
    const nap = "pg_sleep(CASE current_setting('statement_timeout') WHEN '0' THEN 0 ELSE 0.6 END)";
    const script = path.join(temporaryFolder(), 'again.sql');
    writeFileSync(script, `UPDATE orders SET twice = twice WHERE id = 1 AND ${nap} IS NOT NULL`);
    const swap = (limit: string) => {
      const plan = makeSwapPlan({
        target: { url },
        command: sqlCommand(BACKFILL),
        online: { enabled: true, maxCutOverMs: DURATION.parse(limit), catchUp: script },
        commandStdout: 'stderr',
        confirm: async () => true,
      });
      return performSwap({ ...plan, pausesMs: [10] });
    };
    const undone = await swap('500ms');
    const { outcome, reasons, closings = [], stallMs, online } = undone.swap ?? {};
    const words =
      /in each of 2 attempts; the shortest would have taken about (\d+ ms|[\d.]+ s): --limit cut-over=(\w+) would have done/;
    expect({ outcome, reasons, attempts: online?.attempts }).toEqual({
      outcome: 'undone',
      reasons: [expect.stringMatching(words)],
      attempts: 2,
    });
    expect(closings.map(({ purpose }) => purpose)).toEqual(['clone', 'cut-over', 'cut-over']);
    expect(stallMs).toBe(Math.max(...closings.map(({ durationMs }) => durationMs)));
    expect(closedWords({ stallMs: stallMs ?? null, closings })).toMatch(
      /^, closed 3 times, for at most .* in all$/,
    );
    await expectUntouched();

    const [, , enough = ''] = words.exec(reasons?.[0] ?? '') ?? [];
    const done = await swap(enough);
    expect(done.swap, done.swap?.reasons.join()).toMatchObject({
      outcome: 'swapped',
      online: { attempts: 1 },
    });
    await withClient(url, (client) => client.query(NOT_FILLED));
    await cleaned();
  });

  test('gives up if production writes a row that a new foreign key forbids, and the target is open', {
    timeout: 120_000,
  }, async () => {
    const key = 'ALTER TABLE events ADD CONSTRAINT of_order FOREIGN KEY (client) REFERENCES orders';
    const swapping = swapOnline(url, '--', ...sqlCommand(`${key}; SELECT pg_sleep(3)`));
    await until('the command sleeps on the clone that is to follow', () =>
      withClient(server.url, async (client) => {
        const sleeping = await client.query(
          `SELECT FROM pg_stat_activity, pg_replication_slots
            WHERE wait_event = 'PgSleep' AND pg_stat_activity.datname <> 'app'`,
        );
        return sleeping.rowCount === 1;
      }),
    );
    await withClient(url, (client) => client.query("INSERT INTO events (client, what) VALUES (99999, 'x')"));
    const undone = await swapping;
    expect({ exitCode: undone.exitCode, swap: swapOf(undone) }).toMatchObject({
      exitCode: 4,
      swap: {
        outcome: 'undone',
        reasons: [
          expect.stringMatching(/^The foreign key of_order of public.events is violated by 1 row that/),
        ],
      },
    });
    await expectUntouched();
    await withClient(url, (client) => client.query('TRUNCATE events'));
  });

  test('refuses a target with large objects before the rehearsal', { timeout: 120_000 }, async () => {
    await withClient(url, (client) => client.query("SELECT lo_from_bytea(4242, 'x')"));
    const refused = await swapOnline(url, '--', ...sqlCommand(MIGRATION));
    expect(refused.exitCode).toBe(4);
    expect(JSON.parse(refused.stdout).error).toMatchObject({
      code: 'REFUSED',
      message: expect.stringMatching(/the target has large objects.*swap without --online/),
    });
    await expectUntouched();
    await withClient(url, (client) => client.query('SELECT lo_unlink(4242)'));
  });

  test.skipIf(noTerminal)('says what it costs before it asks', { timeout: 120_000 }, async () => {
    const { output, exitCode } = await inTerminal(
      ['--url', url, 'swap', '--online', '--', ...sqlCommand(MIGRATION)],
      { typed: [[/Go on\?/, 'n\n']] },
    );
    expect(exitCode).toBe(4);
    expect(output).toContain('keeps up to 10 GB of it');
    expect(output).toContain('it was not confirmed');
    await expectUntouched();
  });

  test('is done by the owner with REPLICATION, who may create subscriptions', {
    timeout: 120_000,
  }, async () => {
    await withClient(server.url, (client) =>
      client.query(`CREATE ROLE keeper LOGIN CREATEDB REPLICATION PASSWORD 'keeperpass';
        GRANT pg_create_subscription TO keeper`),
    );
    await withClient(server.url, (client) => client.query('CREATE DATABASE kept OWNER keeper'));
    const own = changedUrl(server.url, { user: 'keeper', password: 'keeperpass', database: 'kept' });
    await withClient(own, (client) => client.query(SHADOWED_TABLES));
    const swapped = await swapOnline(
      own,
      ...['--way-back', '1h', '--limit', 'cut-over=10s', '--', ...sqlCommand(MIGRATION)],
    );
    expect({ exitCode: swapped.exitCode, swap: swapOf(swapped) }).toMatchObject({
      exitCode: 0,
      swap: { outcome: 'swapped', online: { wayBack: { failure: null } } },
    });
    await withClient(own, (client) => client.query("INSERT INTO markers VALUES ('since')"));
    const back = await safemigrate(['rollback', '--yes', '--url', own, '--limit', 'cut-over=10s']);
    expect(back, back.stderr).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(
        / {2}Closed: .* for the cut-over.*\n {2}Client: no answer for .* around the cut-over\n {2}Catch-up: .*\n {2}Compared: \d+ rows? in .*, equal\n$/,
      ),
    });
    const { rows } = await withClient(own, (client) => client.query('SELECT * FROM markers'));
    expect(rows).toEqual([{ marker: 'since' }]);
    await safemigrate(['clean', '--originals', '--rolled-back', '--older-than', '0s', '--url', own]);
    await withClient(server.url, (client) => client.query('DROP DATABASE kept'));
  });
});

test.each([
  [15, { wal_level: 'replica' }, 'logical'],
  [19, { wal_level: 'minimal', max_wal_senders: '0' }, 'replica'],
] as const)(
  'a server of %d without logical decoding is refused before the rehearsal, and doctor and --plan name the remedy',
  {
    timeout: 120_000,
  },
  async (version, settings, wanted) => {
    const [server, url] = await shop(version, settings);
    onTestFinished(() => server.stop());
    const remedy = new RegExp(
      `wal_level is ${settings.wal_level}:?\\s+ALTER SYSTEM SET wal_level = ${wanted};`,
    );
    const refused = await swapOnline(url, '--', ...sqlCommand(MIGRATION));
    expect(refused.exitCode).toBe(4);
    expect(JSON.parse(refused.stdout).error).toMatchObject({
      code: 'REFUSED',
      message: expect.stringMatching(remedy),
    });
    const command = ['--', ...sqlCommand(MIGRATION)];
    const planned = await safemigrate(['--url', url, 'swap', '--online', '--plan', ...command]);
    expect(planned).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(remedy) });
    expect(planned.stdout).toContain('pg_create_logical_replication_slot');
    const doctor = await safemigrate(['doctor', '--url', url]);
    expect(doctor.stdout).toMatch(remedy);
  },
);
