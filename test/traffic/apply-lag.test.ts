import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fillInBatches } from '../../src/propose/batches.ts';
import { apply } from '../helpers/apply.ts';
import { withClient } from '../helpers/client.ts';
import { until } from '../helpers/cutting.ts';
import { type PlacedServer, placedServer, standbyOf } from '../helpers/placed-server.ts';
import { scriptCommand } from '../helpers/rehearse.ts';
import { inThisShare } from '../helpers/share.ts';
import { withDatabase } from '../helpers/target-state.ts';

const DATABASE = 'shop';

describe.each(inThisShare([18, 14] as const))('a standby of PostgreSQL %i that is behind', (version) => {
  let folder: string;
  let primary: PlacedServer;
  let standby: PlacedServer;

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'lag-'));
    // The servers are nobody's.
    chmodSync(folder, 0o755);
    primary = await placedServer(version, { parent: folder, settings: { wal_level: 'replica' } });
    await withClient(primary.url, async (client) => {
      await client.query(`CREATE DATABASE ${DATABASE}`);
      standby = await standbyOf(primary, version, async (sql) => (await client.query(sql)).rows);
    });
  }, 60_000);

  afterAll(async () => {
    await standby?.stop();
    await primary?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Writes 8 MB in a transaction, and begins another one; before both it waits for a line, on the target alone. */
  const migration = scriptCommand(
    `const client = await connect();
     const { rows: [{ name }] } = await client.query('SELECT current_database() AS name');
     await client.query('CREATE TABLE first (v text)');
     if (name === args[0]) {
       console.error('it waits');
       await new Promise((resolve) => process.stdin.once('data', resolve));
     }
     await client.query("INSERT INTO first SELECT repeat('x', 1000) FROM generate_series(1, 8000)");
     await client.query('CREATE TABLE second (v text)');
     await client.query('DROP TABLE first');
     await client.query('ALTER TABLE second RENAME TO first');
     await client.end();
     process.stdin.unref();`,
    DATABASE,
  );

  const replay = (what: 'pause' | 'resume') =>
    withClient(standby.url, (client) => client.query(`SELECT pg_wal_replay_${what}()`));

  const hasSecond = () =>
    withClient(withDatabase(primary.url, DATABASE), async (client) => {
      const { rows } = await client.query("SELECT to_regclass('second') IS NOT NULL AS made");
      return rows[0].made as boolean;
    });

  test('holds back the next transaction until it has caught up', async () => {
    let madeMeanwhile: boolean | undefined;
    const run = await apply(withDatabase(primary.url, DATABASE), migration, {
      args: ['--clone', 'template', '--limit', 'lag=1MB'],
      typed: [
        [/it waits/, () => replay('pause').then(() => '\n')],
        [
          /behind: the next transaction waits for it \(--limit lag\)/,
          async () => {
            madeMeanwhile = await hasSecond();
            await replay('resume');
            return '';
          },
        ],
      ],
    });
    expect(run.apply, run.stderr).toMatchObject({ outcome: 'applied' });
    expect(run.exitCode).toBe(0);
    expect(madeMeanwhile).toBe(false);
    expect(run.apply.during?.laggedMs).toBeGreaterThan(0);
  });

  test('pauses the batches of a safer form', async () => {
    const url = withDatabase(primary.url, DATABASE);
    const ask = (sql: string) => withClient(url, async (client) => (await client.query(sql)).rows);
    await ask(
      `CREATE TABLE filled (id int PRIMARY KEY, v int);
       INSERT INTO filled SELECT n, NULL FROM generate_series(1, 6000) AS n;
       ALTER TABLE filled ALTER v SET DEFAULT 1`,
    );
    await replay('pause');
    for (let file = 1; file <= 5; file++)
      await ask("SELECT pg_logical_emit_message(false, 'lag', 'x'); SELECT pg_switch_wal()");
    const [loop] = fillInBatches('filled', ['id'], 'v');
    const filling = ask(loop?.sql ?? '');
    const pauses = new Set<number>();
    await until('it has looked several times', async () => {
      const rows = await ask(
        `SELECT extract(epoch FROM xact_start) AS since FROM pg_stat_activity
         WHERE query LIKE 'DO $safemigrate$%' AND wait_event = 'PgSleep'`,
      );
      for (const { since } of rows as { since: number }[]) pauses.add(since);
      return pauses.size > 3;
    });
    const count = async () => (await ask('SELECT count(v)::int FROM filled'))[0]?.count as number;
    expect(await count()).toBe(5000);
    await replay('resume');
    await filling;
    expect(await count()).toBe(6000);
  });
});
