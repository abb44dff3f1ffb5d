import { existsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import type { Server } from '../../src/local-server/embedded.ts';
import { type CliResult, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { until } from '../helpers/cutting.ts';
import { ownServer } from '../helpers/own-server.ts';
import { placedServer, standbyOf } from '../helpers/placed-server.ts';
import { OLDEST_AND_NEWEST } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';
import { clusterProperties, databasesBeside, inDatabase, oddTarget, oidOf } from '../helpers/swapping.ts';

const SETTINGS = { wal_level: 'logical', max_prepared_transactions: '5', autovacuum: 'off' };
const MIGRATION = 'CREATE TABLE added (id int PRIMARY KEY); INSERT INTO added VALUES (1)';
function tables(url: string): Promise<string[]> {
  return withClient(url, async (client) => {
    const { rows } = await client.query<{ name: string }>(
      "SELECT relname::text AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1",
    );
    return rows.map(({ name }) => name);
  });
}

function swapArgs(url: string, ...more: string[]): string[] {
  return ['--url', url, 'swap', '--yes', '--format', 'json', ...more];
}

function swapOf({ stdout, stderr }: CliResult): {
  outcome: string;
  reasons: string[];
  original: string | null;
  steps: { name: string }[];
} {
  if (stdout === '') throw new Error(`no report:\n${stderr}`);
  return JSON.parse(stdout).swap;
}

describe.each(OLDEST_AND_NEWEST)('PostgreSQL %d, a swap', (version: ServerVersion) => {
  let server: Server;
  beforeAll(async () => {
    server = await ownServer(version, { settings: SETTINGS });
  });
  afterAll(() => server.stop());

  test('and its rollback leave the target as it was in everything but its OID, and the other one beside it', {
    timeout: 120_000,
  }, async () => {
    const name = `odd "db" it's ü`;
    await withClient(server.url, async (client) => {
      for (const statement of oddTarget(name)) await client.query(statement);
    });
    const url = inDatabase(server.url, name);
    await withClient(url, (client) =>
      client.query('CREATE TABLE kept (id int); INSERT INTO kept VALUES (1), (2)'),
    );
    const before = await clusterProperties(server.url, name);
    const oid = await oidOf(server.url, name);

    const swapped = await safemigrate(swapArgs(url, '--', ...sqlCommand(MIGRATION)));
    expect({ exitCode: swapped.exitCode, swap: swapOf(swapped) }).toMatchObject({
      exitCode: 0,
      swap: { outcome: 'swapped', reasons: [] },
    });
    const { original } = swapOf(swapped);
    expect(await clusterProperties(server.url, name)).toEqual(before);
    expect(await tables(url)).toEqual(['added', 'kept']);
    expect(await oidOf(server.url, original ?? '')).toBe(oid);
    expect(await databasesBeside(server.url)).toEqual([name, original].sort());

    const listed = await safemigrate(['list', '--url', url]);
    expect(listed.stdout).toMatch(/original .*ago .*[kM]B/);
    expect(listed.stdout).toContain('pg_upgrade');
    const early = await safemigrate(['clean', '--originals', '--older-than', '1h', '--url', url]);
    expect(early).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('not that old') });

    const back = await safemigrate(['rollback', '--yes', '--url', url]);
    expect(back).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('is the original again') });
    expect(await clusterProperties(server.url, name)).toEqual(before);
    expect(await tables(url)).toEqual(['kept']);
    expect(await oidOf(server.url, name)).toBe(oid);

    // And forth again: the migrated database comes back, and the original is put aside.
    const forth = await safemigrate(['rollback', '--yes', '--url', url]);
    expect(forth).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/is the migrated database again.*\n.*The original is kept as .*_before_/),
    });
    expect(await tables(url)).toEqual(['added', 'kept']);
    await withClient(url, (client) => client.query('INSERT INTO kept VALUES (3)'));
    const refused = await safemigrate(['rollback', '--yes', '--url', url]);
    expect(refused).toMatchObject({
      exitCode: 4,
      stderr: expect.stringContaining('1 row was written since the swap'),
    });
    expect(refused.stderr).toContain('Nothing was touched');
    expect(await tables(url)).toEqual(['added', 'kept']);
    expect(await clusterProperties(server.url, name)).toEqual(before);
    const forced = await safemigrate(['rollback', '--yes', '--discard-writes', '--url', url]);
    expect(forced).toMatchObject({ exitCode: 0 });
    expect(await oidOf(server.url, name)).toBe(oid);

    const cleaned = await safemigrate(['clean', '--rolled-back', '--url', url]);
    expect(cleaned).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^dropped .*_rolledback_\w+\n$/),
    });
    expect(await databasesBeside(server.url)).toEqual([name]);
  });

  test('is not taken back without a word where a crash has made the counters forget what was written', {
    timeout: 60_000,
  }, async () => {
    await withClient(server.url, (client) => client.query('CREATE DATABASE crashed'));
    const url = inDatabase(server.url, 'crashed');
    const swapped = await safemigrate(swapArgs(url, '--', ...sqlCommand(MIGRATION)));
    expect(swapOf(swapped)).toMatchObject({ outcome: 'swapped' });
    await withClient(url, (client) => client.query('INSERT INTO added VALUES (2)'));
    await server.restart('immediate');
    // As many rows as were written until the swap, as it were.
    const back = await safemigrate(['rollback', '--yes', '--url', url]);
    expect(back).toMatchObject({ exitCode: 4, stderr: expect.stringContaining('counters were reset') });
    expect(await tables(url)).toEqual(['added']);
  });
});

test('a swap is not stopped by locks that no session meets, but by what is lost', {
  timeout: 60_000,
}, async () => {
  const server = await ownServer(18);
  onTestFinished(() => server.stop());
  await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
  const url = changedUrl(server.url, { database: 'shop' });
  await withClient(url, (client) =>
    client.query('CREATE TABLE users AS SELECT n AS id, n AS code FROM generate_series(1, 2000) n'),
  );
  const strict = ['--fail-on', 'warning', '--'];
  const locking = sqlCommand(
    'BEGIN; LOCK TABLE users; SELECT pg_sleep(1.2); CREATE TABLE added (id int); COMMIT',
  );
  const rehearsed = await safemigrate(['--url', url, '--format', 'json', ...strict, ...locking]);
  expect(rehearsed.exitCode, rehearsed.stderr).toBe(1);
  const swapped = await safemigrate(swapArgs(url, ...strict, ...locking));
  expect(swapOf(swapped)).toMatchObject({ outcome: 'swapped' });
  const losing = await safemigrate(swapArgs(url, '--', ...sqlCommand('ALTER TABLE users DROP COLUMN code')));
  expect(swapOf(losing)).toMatchObject({ outcome: 'refused', reasons: ['the rehearsal did not pass'] });
});

describe('a swap is refused, and the target stays open and untouched:', () => {
  let server: Server;
  let url: string;
  let ownerUrl: string;
  beforeAll(async () => {
    server = await ownServer(18, { settings: SETTINGS });
    url = inDatabase(server.url, 'app');
    ownerUrl = changedUrl(url, { user: 'appowner', password: 'appownerpass' });
    await withClient(server.url, async (client) => {
      await client.query("CREATE ROLE appowner LOGIN CREATEDB PASSWORD 'appownerpass'");
      await client.query('CREATE DATABASE app OWNER appowner');
      await client.query("COMMENT ON DATABASE app IS 'its own'");
    });
    await withClient(url, (client) =>
      client.query('CREATE TABLE kept (id int); INSERT INTO kept VALUES (1)'),
    );
  });
  afterAll(() => server.stop());

  let before: unknown;
  beforeEach(async () => {
    before = await stateOf();
  });
  const stateOf = async () => [
    await clusterProperties(server.url, 'app'),
    await oidOf(server.url, 'app'),
    await databasesBeside(server.url),
  ];

  async function expectUntouched(also: string[] = []) {
    expect(await stateOf()).toEqual(before);
    expect(await tables(url)).toEqual([...also, 'kept'].sort());
  }

  function expectRefusal(result: CliResult, reason: RegExp, outcome = 'refused') {
    const swap = swapOf(result);
    expect({ exitCode: result.exitCode, outcome: swap.outcome }).toEqual({ exitCode: 4, outcome });
    expect(swap.reasons.join('\n')).toMatch(reason);
  }

  async function refusedFor(reason: RegExp, args: string[], outcome = 'refused') {
    expectRefusal(await safemigrate(args), reason, outcome);
    await expectUntouched();
  }

  const migrate = ['--', ...sqlCommand(MIGRATION)];

  /** Runs the swap, and does something on the server while the rehearsal's command is at work. */
  async function swapWhile(asUrl: string, meanwhile: () => Promise<void>): Promise<CliResult> {
    const folder = temporaryFolder();
    const [started, go] = [path.join(folder, 'started'), path.join(folder, 'go')];
    const waiting = `touch '${started}'; until [ -e '${go}' ]; do sleep 0.02; done; exec "$@"`;
    const words = swapArgs(asUrl, '--', 'sh', '-c', waiting, 'sh', ...sqlCommand(MIGRATION));
    const result = safemigrate(words);
    await until('the command runs', async () => existsSync(started));
    await meanwhile();
    writeFileSync(go, '');
    return result;
  }

  test('a prepared transaction', async () => {
    const result = await swapWhile(url, () =>
      withClient(url, async (client) => {
        await client.query('BEGIN; INSERT INTO kept VALUES (2)');
        await client.query("PREPARE TRANSACTION 'p'");
      }),
    );
    expectRefusal(result, /1 prepared transaction/);
    await expectUntouched();
    await withClient(url, (client) => client.query("ROLLBACK PREPARED 'p'"));
  });

  test('a logical replication slot', async () => {
    await withClient(url, (client) =>
      client.query("SELECT pg_create_logical_replication_slot('s', 'pgoutput')"),
    );
    await refusedFor(/1 logical replication slot/, swapArgs(url, ...migrate));
    const doctor = await safemigrate(['doctor', '--url', url]);
    expect(doctor.stdout).toMatch(/What prevents safemigrate swap\n {2}1 logical replication slot/);
    await withClient(url, (client) => client.query("SELECT pg_drop_replication_slot('s')"));
  });

  test('a subscription', async () => {
    await withClient(url, (client) =>
      client.query("CREATE SUBSCRIPTION s CONNECTION 'dbname=app' PUBLICATION p WITH (connect = false)"),
    );
    await refusedFor(/1 subscription/, swapArgs(url, ...migrate));
    await withClient(url, (client) =>
      client.query('ALTER SUBSCRIPTION s SET (slot_name = NONE); DROP SUBSCRIPTION s'),
    );
  });

  test("a superuser's session, where the role is none", async () => {
    const session = new Client({ connectionString: url });
    const result = await swapWhile(ownerUrl, () => session.connect().then(() => {}));
    expectRefusal(result, /1 session of superusers/);
    expect((await session.query('SELECT 1')).rowCount).toBe(1);
    await session.end();
    await expectUntouched();
  });

  test('a label or setting that the role may not give the clone', async () => {
    await withClient(server.url, (client) => client.query('ALTER DATABASE app SET log_statement TO none'));
    before = await stateOf();
    await refusedFor(
      /differs from the target in settings.*log_statement/,
      swapArgs(ownerUrl, ...migrate),
      'undone',
    );
    await withClient(server.url, (client) => client.query('ALTER DATABASE app RESET log_statement'));
  });

  test('a role that may not create databases', async () => {
    await withClient(server.url, (client) => client.query('ALTER ROLE appowner NOCREATEDB'));
    const result = await safemigrate(swapArgs(ownerUrl, ...migrate));
    expect(result).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('CREATEDB') });
    const doctor = await safemigrate(['doctor', '--url', ownerUrl]);
    expect(doctor.stdout).toMatch(/may not clone and rename app\n +ALTER ROLE "?appowner"? CREATEDB;\n/);
    await withClient(server.url, (client) => client.query('ALTER ROLE appowner CREATEDB'));
    await expectUntouched();
  });

  test('a maintenance database', async () => {
    await refusedFor(/postgres is a template or a maintenance database/, swapArgs(server.url, ...migrate));
  });

  test('a schema that was changed since the rehearsal began', async () => {
    const result = await swapWhile(url, () =>
      withClient(url, async (client) => void (await client.query('CREATE TABLE meanwhile (id int)'))),
    );
    expectRefusal(result, /changed since it was rehearsed on/);
    await expectUntouched(['meanwhile']);
    await withClient(url, (client) => client.query('DROP TABLE meanwhile'));
  });

  const failing: [string, string, RegExp][] = [
    ['SQL', 'SELECT count(*) = 2 FROM added', /returned false or null/],
    ['SQL that fails', 'SELECT nothing FROM nowhere', /nowhere.*42P01/],
    ['a command', 'test -z "$DATABASE_URL"', /exit code 1/],
  ];
  test.each(inThisShare(failing))('--verify by %s', async (_, verify, reason) => {
    await refusedFor(reason, swapArgs(url, '--verify', verify, ...migrate), 'undone');
  });

  /** A command that does one thing in the rehearsal, and another one in the swap. */
  function differently(second: string): string[] {
    const marker = path.join(temporaryFolder(), 'rehearsed');
    const script = `if [ -e '${marker}' ]; then ${second}; fi; touch '${marker}'; exec "$@"`;
    return ['--', 'sh', '-c', script, 'sh', ...sqlCommand(MIGRATION)];
  }

  test('a command that fails when it counts', async () => {
    await refusedFor(/exit code 9, although it passed/, swapArgs(url, ...differently('exit 9')), 'undone');
  });

  test('a command that takes longer than --limit closed allows, which is ended', async () => {
    const args = swapArgs(url, '--limit', 'closed=4s', ...differently('exec sleep 600'));
    await refusedFor(/closed for longer than --limit closed/, args, 'undone');
  });

  test('a rehearsal that takes longer than --limit closed allows', async () => {
    await refusedFor(
      /would be closed for about/,
      swapArgs(url, '--limit', 'closed=1s', '--', ...sqlCommand(`SELECT pg_sleep(1); ${MIGRATION}`)),
    );
  });

  test('nobody to ask', async () => {
    const args = ['--url', url, 'swap', ...migrate];
    expect(await safemigrate(args)).toMatchObject({
      exitCode: 4,
      stderr: expect.stringContaining('There is no terminal to ask on'),
    });
    await expectUntouched();
  });

  test('a lock on the database itself, which somebody holds for longer than we wait', {
    timeout: 60_000,
  }, async () => {
    const client = new Client({ connectionString: server.url });
    await client.connect();
    const result = await swapWhile(
      url,
      async () => void (await client.query("BEGIN; COMMENT ON DATABASE app IS 'busy'")),
    );
    await client.query('ROLLBACK');
    await client.end();
    expectRefusal(result, /holds the lock/, 'undone');
    await expectUntouched();
  });
});

test('a swap is refused while a standby streams, also where the role may not see its state, unless it is taken care of', {
  timeout: 120_000,
}, async () => {
  const primary = await placedServer(18, { parent: tmpdir() });
  onTestFinished(() => primary.stop());
  const standby = await withClient(primary.url, (client) =>
    standbyOf(primary, 18, async (sql) => (await client.query(sql)).rows),
  );
  onTestFinished(() => standby.stop());
  await withClient(primary.url, async (client) => {
    await client.query('CREATE ROLE appowner LOGIN CREATEDB');
    await client.query('CREATE DATABASE app OWNER appowner');
    await until('the standby streams', async () => {
      const { rows } = await client.query("SELECT FROM pg_stat_replication WHERE state = 'streaming'");
      return rows.length === 1;
    });
  });
  const url = changedUrl(primary.url, { user: 'appowner', database: 'app' });
  const oid = await oidOf(primary.url, 'app');
  const refused = await safemigrate(swapArgs(url, '--', ...sqlCommand(MIGRATION)));
  expect({ exitCode: refused.exitCode, swap: swapOf(refused) }).toMatchObject({
    exitCode: 4,
    swap: { outcome: 'refused', reasons: [expect.stringContaining('1 standby of the server')] },
  });
  expect(await oidOf(primary.url, 'app')).toBe(oid);
  expect(await tables(url)).toEqual([]);
  const swapped = await safemigrate(swapArgs(url, '--permit', 'standbys', '--', ...sqlCommand(MIGRATION)));
  expect(swapOf(swapped)).toMatchObject({ outcome: 'swapped' });
  const onStandby = changedUrl(standby.url, { database: 'app' });
  await until('the standby follows', async () => (await tables(onStandby).catch(() => [])).length === 1);
});
