import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { psqlCommand, rehearse } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { startTraffic } from '../helpers/traffic.ts';

beforeAll(() => useOwnServers(18));

const TABLES = `CREATE TABLE orders (id bigint PRIMARY KEY, status text, at timestamptz);
  INSERT INTO orders SELECT n, 'open', now() FROM generate_series(1, 12000) AS n;
  CREATE TABLE customers (id bigint PRIMARY KEY);
  ANALYZE;`;
const MIGRATION = `BEGIN; ALTER TABLE customers ADD note text;
  UPDATE orders SET status = 'paid', at = clock_timestamp(); CREATE INDEX orders_status ON orders (status); COMMIT`;

test('a safer form is written if a second clone proves it, and psql runs it with the same result', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const folder = temporaryFolder();
  const [file, page, note] = ['safer.sql', 'report.html', 'report.md'].map((name) => path.join(folder, name));
  const args = ['--propose', file, '--report', page, '--report', note] as string[];
  const { report, exitCode } = await rehearse(target.url, sqlCommand(MIGRATION), { args });
  expect(exitCode).toBe(0);
  const { proposal } = report;
  expect(proposal, JSON.stringify(proposal?.reasons)).toMatchObject({
    ...{ outcome: 'proved', file, reasons: [], left: [], tablesCompared: 2, tablesSkipped: 0 },
    tolerated: ['public.orders: other values in at'],
  });
  expect(proposal?.safer?.readsBlockedMs).toBeLessThan(proposal?.original.readsBlockedMs ?? 0);
  expect(statSync(file ?? '').mode & 0o777).toBe(0o600);
  expect(readFileSync(page ?? '', 'utf8')).toMatch(
    /Safer form[\s\S]*As it is[\s\S]*CREATE INDEX CONCURRENTLY/,
  );
  expect(readFileSync(note ?? '', 'utf8')).toMatch(
    /Safer form \(--propose\): proved[\s\S]*\| reads blocked, at most \|/,
  );
  const safer = await rehearse(target.url, psqlCommand('-f', file ?? ''));
  expect(safer.report.schema?.after).toBe(report.schema?.after);
  expect(safer.report.hazards.map(({ code }) => code)).not.toContain('BACKFILL_WITH_DDL');
  expect(report.target.changes).toEqual([]);
  const applied = await rehearse(target.url, psqlCommand('-f', file ?? ''), { args: ['--apply', '--yes'] });
  expect(applied.exitCode, applied.stderr).toBe(0);
  expect(applied.report.apply?.outcome).toBe('applied');
});

test('what cannot be proved is not proposed, with what differs', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const file = path.join(temporaryFolder(), 'random.sql');
  const { report, stderr } = await rehearse(
    target.url,
    sqlCommand('ALTER TABLE orders ADD luck double precision DEFAULT random()'),
    { args: ['--propose', file] },
  );
  expect(report.proposal).toMatchObject({
    outcome: 'refused',
    reasons: ['it leaves other rows: public.orders: other values in luck'],
  });
  expect(stderr).not.toMatch(/A safer form exists/);
  expect(existsSync(file)).toBe(false);
});

test('a file that exists is not overwritten, and nothing is touched', async () => {
  const file = path.join(temporaryFolder(), 'mine.sql');
  writeFileSync(file, 'SELECT 1;');
  const { exitCode, stderr } = await safemigrate(['--propose', file, '--', 'true'], {
    env: { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' },
  });
  expect(exitCode).toBe(2);
  expect(stderr).toMatch(/mine\.sql exists, and is not overwritten/);
  expect(readFileSync(file, 'utf8')).toBe('SELECT 1;');
});

test('parameters of prepared statements are values in the script', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const file = path.join(temporaryFolder(), 'parameters.sql');
  const program = `
    const pg = require(${JSON.stringify(createRequire(import.meta.url).resolve('pg'))});
    const client = new pg.Client(process.env.DATABASE_URL);
    await client.connect();
    await client.query('UPDATE orders SET status = $1 WHERE id > $2', ["it's", 100]);
    await client.end();`;
  const command = [process.execPath, '-e', `(async () => {${program}})()`];
  const { report } = await rehearse(target.url, command, { args: ['--propose', file] });
  expect(report.proposal, JSON.stringify(report.proposal?.reasons)).toMatchObject({
    ...{ outcome: 'proved', tolerated: [] },
    changes: [{ codes: ['BACKFILL_IN_ONE_TRANSACTION'] }],
  });
  expect(readFileSync(file, 'utf8')).toContain("SET status = 'it''s'");
});

test('the files for Prisma do the same as messages of one file each', async () => {
  const journal = 'CREATE TABLE _prisma_migrations (id text, migration_name text);';
  const [target, other] = await Promise.all(
    [1, 2].map(() => temporaryDatabase(18, { sql: journal + TABLES })),
  );
  const folder = path.join(temporaryFolder(), 'proposed');
  const recorded = "INSERT INTO _prisma_migrations (id, migration_name) VALUES ('1', '2026_paid')";
  const migration = sqlCommand(`${MIGRATION.replace(', at = clock_timestamp()', '')}; ${recorded}`);
  const { report } = await rehearse(target?.url ?? '', migration, {
    args: ['--propose', folder, '--propose-format', 'prisma'],
  });
  expect(report.proposal).toMatchObject({ outcome: 'proved', reasons: [], file: folder });
  const names = readdirSync(folder).sort();
  expect(names).toEqual(['2026_paid_1', '2026_paid_2', '2026_paid_3']);
  await withClient(other?.url ?? '', async (client) => {
    for (const name of names)
      await client.query(readFileSync(path.join(folder, name, 'migration.sql'), 'utf8'));
    const { rows } = await client.query("SELECT count(*)::int FROM orders WHERE status = 'paid'");
    expect(rows).toEqual([{ count: 12_000 }]);
  });
  const after = await rehearse(other?.url ?? '', ['true']);
  expect(after.report.schema?.after).toBe(report.schema?.after);
});

test('both are measured under the same load', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const held = sqlCommand(
    'BEGIN; ALTER TABLE orders ADD w int; ALTER TABLE customers ADD w int; DO $$ BEGIN PERFORM pg_sleep(1); END $$; COMMIT',
  );
  const traffic = await startTraffic(target.url, 4, ['UPDATE orders SET status = status WHERE id = $1']);
  try {
    const { report } = await rehearse(target.url, held, {
      env: { SAFEMIGRATE_CLONE: 'cluster' },
      args: [
        ...['--load', '--load-window', '4s', '--load-warmup', '1s'],
        ...['--propose', path.join(temporaryFolder(), 'safer.sql')],
      ],
    });
    const { proposal } = report;
    expect(proposal, JSON.stringify(proposal?.reasons)).toMatchObject({ outcome: 'proved' });
    expect(report.caveats.filter(({ path: at }) => at.startsWith('proposal'))).toEqual([]);
    expect(proposal?.original.load?.longestWaitMs).toBe(report.load?.longestWaitMs);
    expect(proposal?.original.load?.longestWaitMs).toBeGreaterThan(700);
    expect(proposal?.safer?.load?.longestWaitMs).toBeLessThan(500);
    expect(report.target.changes).toEqual([]);
  } finally {
    await traffic.stop();
  }
}, 60_000);
