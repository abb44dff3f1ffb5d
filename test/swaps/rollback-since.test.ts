import { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { formatMark, ownedName } from '../../src/ownership/mark.ts';
import { newRunId } from '../../src/ownership/run-id.ts';
import { identifier, literal } from '../../src/postgres/sql/quote.ts';
import { type CliResult, inTerminal, noTerminal, safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { databasesBeside, inDatabase, oidOf } from '../helpers/swapping.ts';

let server: Server;
let url: string;

beforeAll(async () => {
  server = await ownServer(18, { settings: { max_prepared_transactions: '5', autovacuum: 'off' } });
  url = inDatabase(server.url, 'shop');
  await onServer('CREATE ROLE reader');
});
afterAll(() => server.stop());

beforeEach(async () => {
  for (const name of await databasesBeside(server.url))
    await onServer(`DROP DATABASE ${identifier(name)} WITH (FORCE)`);
  await onServer('CREATE DATABASE shop');
  await onServer(`COMMENT ON DATABASE shop IS 'the shop'`);
  await inShop('CREATE TABLE orders (id int)');
});

const onServer = (sql: string) => withClient(server.url, async (client) => (await client.query(sql)).rows);
const inShop = (sql: string) => withClient(url, async (client) => (await client.query(sql)).rows);
const commentOf = async () =>
  (
    await onServer(
      `SELECT shobj_description(oid, 'pg_database') AS c FROM pg_database WHERE datname = 'shop'`,
    )
  )[0].c;

async function swap(
  sql = 'CREATE TABLE added (id int)',
  ...more: string[]
): Promise<{ result: CliResult; original: string }> {
  const args = ['--url', url, 'swap', '--yes', ...more, '--format', 'json', '--', ...sqlCommand(sql)];
  const result = await safemigrate(args);
  return { result, original: JSON.parse(result.stdout).swap?.original ?? '' };
}

const rollback = (...more: string[]) => safemigrate(['rollback', '--yes', ...more, '--url', url]);

describe('a rollback', { timeout: 60_000 }, () => {
  test.each([
    ['in the database', () => onServer('ALTER DATABASE shop SET track_counts = off')],
    ['by a role', () => onServer(`ALTER ROLE reader SET track_counts TO 'off'`)],
  ])('refuses as not known what was written with track_counts off %s', async (_where, turnOff) => {
    await turnOff();
    const { original } = await swap();
    await inShop('INSERT INTO orders VALUES (1)');
    const refused = await rollback();
    expect(refused).toMatchObject({ exitCode: 4, stderr: expect.stringContaining('not known') });
    expect(await inShop('SELECT * FROM orders')).toEqual([{ id: 1 }]);
    expect(await databasesBeside(server.url)).toEqual(['shop', original].sort());
    const done = await rollback('--discard-writes');
    expect(done).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('writes since the swap are not known: the server did not count them'),
    });
    await onServer('ALTER ROLE reader RESET track_counts');
  });

  test('refuses if it was turned off after the swap', async () => {
    await swap();
    await onServer('ALTER DATABASE shop SET track_counts = off');
    expect(await rollback()).toMatchObject({ exitCode: 4, stderr: expect.stringContaining('not known') });
  });

  test('refuses to take back settings and privileges of the database that changed since the swap', async () => {
    const { original } = await swap();
    const changes = (name: string) => [
      `ALTER DATABASE ${identifier(name)} SET work_mem = '7MB'`,
      `GRANT CREATE ON DATABASE ${identifier(name)} TO reader`,
    ];
    for (const sql of changes('shop')) await onServer(sql);
    const refused = await rollback();
    expect(refused).toMatchObject({
      exitCode: 4,
      stderr: expect.stringMatching(/privileges and settings of the database were changed since the swap/i),
    });
    // As the message says: the same change of the original, and nothing is lost.
    for (const sql of changes(original)) await onServer(sql);
    expect(await rollback()).toMatchObject({ exitCode: 0 });
    expect(await inShop('SHOW work_mem')).toEqual([{ work_mem: '7MB' }]);
  });

  test('carries a comment over that was changed since the swap', async () => {
    await swap();
    expect(await commentOf()).toBe('the shop');
    await onServer(`COMMENT ON DATABASE shop IS 'the new shop'`);
    expect(await rollback()).toMatchObject({ exitCode: 0 });
    expect(await commentOf()).toBe('the new shop');
  });

  test('takes back what the migration itself set', async () => {
    const { result } = await swap(`ALTER DATABASE shop SET work_mem = '9MB'`);
    expect(result.exitCode).toBe(0);
    expect(await inShop('SHOW work_mem')).toEqual([{ work_mem: '9MB' }]);
    expect(await rollback()).toMatchObject({ exitCode: 0 });
    expect(await inShop('SHOW work_mem')).not.toEqual([{ work_mem: '9MB' }]);
  });
});

/** What `list` has of the database that a rollback put aside. */
async function rolledBack(): Promise<{ name: string; putAsideAt: string; line: string | undefined }> {
  const { stdout } = await safemigrate(['list', '--format', 'json', '--url', url]);
  const found = JSON.parse(stdout).find(({ role }: { role: string }) => role === 'rolled-back');
  const text = (await safemigrate(['list', '--url', url])).stdout;
  return { ...found, line: text.split('\n').find((each) => each.includes(found.name)) };
}

describe('a rollback that gives rows up', { timeout: 120_000 }, () => {
  const WRITTEN = '774 rows were written since the swap';
  const cleaned = async (...words: string[]) =>
    (await safemigrate(['clean', '--url', url, ...words])).stdout.trim();

  test.skipIf(noTerminal)('names their number, and puts aside what only its own flag drops', async () => {
    await swap();
    await inShop('INSERT INTO orders SELECT generate_series(1, 774)');
    const session = new Client({ connectionString: url });
    await session.connect();
    onTestFinished(() => session.end().catch(() => {}));
    const refused = await rollback();
    expect(refused).toMatchObject({ exitCode: 4, stderr: expect.stringContaining(WRITTEN) });
    expect(refused.stderr).toContain('Nothing was touched');
    const asked = await inTerminal(['rollback', '--discard-writes', '--url', url], {
      typed: [[/Go on\?/, 'n\n']],
    });
    expect(asked.output.replace(/\s+/g, ' ')).toContain(
      `So far ${WRITTEN}. Only the database that is put aside`,
    );
    // Neither has closed the target.
    await session.query('SELECT 1');
    await session.end();

    const done = await rollback('--discard-writes', '--format', 'json');
    const { target, swap: section } = JSON.parse(done.stdout);
    expect({ target, section }).toMatchObject({
      target: { database: 'shop' },
      section: { original: null, givenUp: { rows: 774, reason: null, tables: [] } },
    });
    const { name, putAsideAt, line } = await rolledBack();
    expect(name).toBe(section.rolledBack);
    expect(name).toMatch(/^shop_rolledback_/);
    expect(Date.now() - Date.parse(putAsideAt)).toBeLessThan(60_000);
    expect(line).toMatch(
      /rolled-back database: the migrated one, which a rollback put aside .* ago; .*--rolled-back/,
    );

    expect(await cleaned('--originals', '--older-than', '0s')).toMatch(
      `left    ${name}: it is a rolled-back database`,
    );
    expect(await cleaned('--rolled-back', '--older-than', '1d')).toMatch(
      /rolled-back database.*not that old/,
    );
    expect(await cleaned('--rolled-back')).toBe(`dropped ${name}`);
    expect(await databasesBeside(server.url)).toEqual(['shop']);
  });
});

describe('a prepared transaction', { timeout: 60_000 }, () => {
  const PREPARING = `BEGIN; INSERT INTO orders VALUES (1); PREPARE TRANSACTION 'left'`;

  test('that the command leaves in the clone makes a swap refuse, and nothing is left', async () => {
    expect((await swap(PREPARING)).result.exitCode, 'the rehearsal does not pass').toBe(1);
    const { result } = await swap(PREPARING, '--accept', 'TRANSACTION_LEFT_PREPARED="tried"');
    expect(result.exitCode).toBe(4);
    expect(result.stdout + result.stderr).toContain('leaves 1 prepared transaction (left)');
    expect(await databasesBeside(server.url)).toEqual(['shop']);
    expect(await onServer('SELECT gid FROM pg_prepared_xacts')).toEqual([]);
    expect(await inShop('SELECT * FROM orders')).toEqual([]);
  });

  test('in the closed clone of a dead run is rolled back by clean, and a copy of the cluster works beside it', async () => {
    const run = newRunId();
    const name = ownedName('shop', 'clone', run);
    await onServer(`CREATE DATABASE ${identifier(name)} TEMPLATE shop`);
    await withClient(inDatabase(server.url, name), (client) => client.query(PREPARING));
    const [oid, targetOid, lockDatabaseOid] = await Promise.all(
      [name, 'shop', 'postgres'].map((each) => oidOf(server.url, each)),
    );
    const at = { database: name, oid: oid ?? 0 };
    const mark = formatMark({
      version: 1,
      run,
      role: 'clone',
      state: 'migrated',
      at,
      targetOid: targetOid ?? 0,
      lockDatabaseOid: lockDatabaseOid ?? 0,
    });
    await onServer(`COMMENT ON DATABASE ${identifier(name)} IS ${literal(mark)}`);
    await onServer(`ALTER DATABASE ${identifier(name)} ALLOW_CONNECTIONS false`);

    const copied = await safemigrate(['--url', url, '--', ...sqlCommand('CREATE TABLE t (id int)')], {
      env: { SAFEMIGRATE_CLONE: 'cluster' },
    });
    expect(copied, copied.stderr).toMatchObject({ exitCode: 0 });

    const cleaned = await safemigrate(['clean', '--url', url]);
    expect(cleaned).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(name) });
    expect(await databasesBeside(server.url)).toEqual(['shop']);
    expect(await onServer('SELECT gid FROM pg_prepared_xacts')).toEqual([]);
  });
});
