import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { runProgram, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { copyProject, project } from '../helpers/projects.ts';
import { psqlCommand, rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';

beforeAll(() => useOwnServers(18));

const TABLES = `CREATE TABLE orders (id bigint PRIMARY KEY, status text);
  INSERT INTO orders SELECT n, 'open' FROM generate_series(1, 100) AS n;
  CREATE SCHEMA later;`;
const ROWS = 'SELECT id, status FROM orders ORDER BY id';

test('psql leaves the same schema and the same rows on another database', async () => {
  const [one, other] = await Promise.all([1, 2].map(() => temporaryDatabase(18, { sql: TABLES })));
  const file = path.join(temporaryFolder(), 'sent.sql');
  const command = scriptCommand(`
    const first = await connect();
    const second = new pg.Client({ connectionString: process.env.DATABASE_URL, options: '-c search_path=later' });
    await second.connect();
    await first.query("SET search_path = later, public");
    await second.query('CREATE TABLE of_second (note text)');
    await first.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await first.query('SELECT count(*) FROM orders');
    await first.query('UPDATE orders SET status = $1 WHERE id > $2', ["it's \\\\ ü", 50]);
    await first.query('SAVEPOINT s');
    await first.query('DELETE FROM orders');
    await first.query('SELECT 1 / 0').catch(() => {});
    await first.query('ROLLBACK TO s');
    await first.query('CREATE TABLE of_first (at timestamptz DEFAULT $$2026-01-01$$) -- the last');
    await first.query('COMMIT');
    await second.query('BEGIN; CREATE TABLE never (); ROLLBACK');
    await second.query('CREATE TABLE a (); CREATE TABLE b (note text)');
    await second.query('CREATE INDEX CONCURRENTLY b_note ON b (note)');
    await first.end();
    await second.end();`);
  const { report, stdout, stderr } = await rehearse(one?.url ?? '', command, { args: ['--script', file] });
  expect(report.script, stdout + stderr).toEqual({ file, reason: null, statements: 7, transactions: 5 });
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const whole = readFileSync(file, 'utf8');
  const text = whole.slice(whole.indexOf('\\set'));
  expect(text).toContain('BEGIN ISOLATION LEVEL REPEATABLE READ;\nUPDATE orders');
  expect(text).not.toMatch(/DELETE|never|count/);
  const again = await rehearse(other?.url ?? '', psqlCommand('-f', file));
  expect(again.report.command.exitCode, again.stderr + text).toBe(0);
  expect(again.report.schema?.after).toBe(report.schema?.after);
  const environments = [one, other].map((each) => ({
    env: { ...process.env, DATABASE_URL: each?.url ?? '' },
  }));
  expect((await runProgram(command, environments[0])).exitCode).toBe(0);
  expect((await runProgram(psqlCommand('-f', file), environments[1])).exitCode).toBe(0);
  const [rows, same] = await Promise.all(
    [one, other].map((each) =>
      withClient(each?.url ?? '', async (client) => (await client.query(ROWS)).rows as unknown[]),
    ),
  );
  expect(same).toEqual(rows);
});

describe.each(inThisShare(['knex', 'drizzle'] as const))('%s', (id) => {
  const { command, environment, available, journal } = project(id);
  const found = available();
  test.skipIf(skipReason(found === true ? null : found))(
    'its migrations, run by psql on another database, are found applied',
    async () => {
      const [one, other] = await Promise.all([temporaryDatabase(18), temporaryDatabase(18)]);
      const { folder, remove } = await copyProject(id);
      const file = path.join(folder, 'sent.sql');
      try {
        const env = environment(one.url);
        const { report } = await rehearse(one.url, command, { folder, env, args: ['--script', file] });
        expect(report.script?.reason).toBeNull();
        const there = environment(other.url);
        const ran = await runProgram(psqlCommand('-f', file), { env: { ...there, DATABASE_URL: other.url } });
        expect(ran.exitCode, ran.stderr + readFileSync(file, 'utf8')).toBe(0);
        const count = () =>
          withClient(
            other.url,
            async (client) => (await client.query(`SELECT count(*) FROM ${journal}`)).rows,
          );
        const before = await count();
        const after = await runProgram(command, { folder, env: there });
        expect(after.exitCode, after.stdout + after.stderr).toBe(0);
        expect(await count()).toEqual(before);
        const again = await rehearse(other.url, ['true']);
        expect(again.report.schema?.after).toBe(report.schema?.after);
      } finally {
        await remove();
      }
    },
  );
});

describe('no script is written, with the reason,', () => {
  const insert = 'await client.query("INSERT INTO orders VALUES (" + n + ")");';
  test.each([
    [
      'of a loop of more than 2,000 statements',
      scriptCommand(`const client = await connect();
        await client.query('DELETE FROM orders');
        for (let n = 1; n <= 2100; n++) ${insert}
        await client.end();`),
      /more than 2,000 statements/,
    ],
    [
      'of copied rows',
      psqlCommand('-c', '\\copy orders FROM PROGRAM \'printf "1000\\tcopied\\n"\''),
      /copies rows/,
    ],
    ['of a command that fails', sqlCommand('SELECT 1 / 0'), /did not succeed/],
    ['of a command that only reads', sqlCommand('SELECT 1'), /nothing that leaves anything/],
  ])('%s', async (_what, command, reason) => {
    const target = await temporaryDatabase(18, { sql: TABLES });
    const file = path.join(temporaryFolder(), 'sent.sql');
    const { report, stderr } = await rehearse(target.url, command, { args: ['--script', file] });
    expect(report.script, stderr).toMatchObject({ file: null, reason: expect.stringMatching(reason) });
    expect(existsSync(file)).toBe(false);
  });
});
