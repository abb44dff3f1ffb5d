import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { apply } from '../helpers/apply.ts';
import { withClient } from '../helpers/client.ts';
import { type PlacedServer, placedServer, standbyOf } from '../helpers/placed-server.ts';
import { scriptCommand } from '../helpers/rehearse.ts';
import { withDatabase } from '../helpers/target-state.ts';

const DATABASE = 'shop';

describe.each([18, 14] as const)('a standby of PostgreSQL %i that is behind', (version) => {
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
      args: ['--clone', 'template', '--max-lag', '1MB'],
      typed: [
        [/it waits/, () => replay('pause').then(() => '\n')],
        [
          /behind: the next transaction waits for it \(--max-lag\)/,
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
});
