import { beforeAll, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { sqlCommand } from '../helpers/cli.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import { rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { serverUrl, shareOf, useOwnServers } from '../helpers/servers.ts';

const SLOT = 'production';

/** What such functions would change: the slot of a standby, and a session of the application. */
const onServer = (sql: string, version: ServerVersion) =>
  withClient(serverUrl(version), async (client) => (await client.query(sql)).rows);

const DROPS = `pg_drop_replication_slot('${SLOT}')`;

/** Each is a way to call it; the objects that some of them use are in the target. */
const WAYS: readonly (readonly [way: string, sql: string])[] = [
  ['openly', `SELECT ${DROPS}`],
  ['in a DO block', `DO $$ BEGIN PERFORM ${DROPS}; END $$`],
  ['in a text that DO executes', `DO $$ BEGIN EXECUTE 'SELECT ${DROPS.replaceAll("'", "''''")}'; END $$`],
  [
    'in a function that the command makes',
    `CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM ${DROPS}; END $$; SELECT f()`,
  ],
  ['in a function of the target', 'SELECT app.drop_slot()'],
  ['in a function that calls that one', 'SELECT app.outer_drop()'],
  ['in a view of the target', 'SELECT * FROM app.dropping'],
  [
    'in a view of a function that the command replaces',
    `BEGIN; CREATE OR REPLACE FUNCTION app.harmless() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM ${DROPS}; RETURN 1; END $$; SELECT * FROM app.viewed`,
  ],
  ['in a trigger of the target', 'INSERT INTO app.watched VALUES (1)'],
  ['in a default of the target', 'INSERT INTO app.defaulted (id) VALUES (1)'],
  ['in a text of 3 MB', `SELECT '{3 MB}', ${DROPS}`],
];

const SETUP = `
CREATE SCHEMA app;
CREATE FUNCTION app.drop_slot() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM ${DROPS}; END $$;
CREATE FUNCTION app.outer_drop() RETURNS void LANGUAGE sql AS 'SELECT app.drop_slot()';
CREATE VIEW app.dropping AS SELECT app.drop_slot();
CREATE FUNCTION app.on_insert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM app.drop_slot(); RETURN NEW; END $$;
CREATE FUNCTION app.harmless() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE VIEW app.viewed AS SELECT app.harmless();
CREATE TABLE app.watched (id int);
CREATE TRIGGER t BEFORE INSERT ON app.watched FOR EACH ROW EXECUTE FUNCTION app.on_insert();
CREATE FUNCTION app.drop_text() RETURNS text LANGUAGE sql AS 'SELECT app.drop_slot()::text';
CREATE TABLE app.defaulted (id int, dropped text DEFAULT app.drop_text());
CREATE FUNCTION app.pg_switch_wal() RETURNS int LANGUAGE sql AS 'SELECT 1';
`;

/** Runs each in a session of its own, after some others; the command fails if one did. */
const sqlstatesOf = (statements: readonly string[], before: readonly string[] = []) =>
  scriptCommand(
    `for (const sql of ${JSON.stringify(statements)}) {
      const c = await connect();
      for (const other of ${JSON.stringify(before)}) await c.query(other);
      await c.query(sql.replace('{3 MB}', 'x'.repeat(3_000_000))).then(
        () => console.error('ran:', sql),
        (error) => {
          console.error(error.code + ':', sql);
          process.exitCode = 7;
        },
      );
      await c.end();
    }`,
  );

describe.each([14, 18] as const)('functions that act on the server, on PostgreSQL %i', (version) => {
  beforeAll(async () => {
    await useOwnServers(version);
    await onServer(`SELECT pg_create_physical_replication_slot('${SLOT}')`, version);
  });

  /** Each way in a session of its own, after these statements. */
  async function expectRefused(ways: typeof WAYS, before: readonly string[], env: NodeJS.ProcessEnv = {}) {
    const target = await temporaryDatabase(version, { sql: SETUP });
    const { report, exitCode, stderr } = await rehearse(
      target.url,
      sqlstatesOf(
        ways.map(([, sql]) => sql),
        before,
      ),
      { env },
    );
    expect(exitCode, stderr).toBe(1);
    for (const [, sql] of ways) expect(stderr).toContain(`42501: ${sql}\n`);
    const refusal = { what: expect.stringContaining('pg_drop_replication_slot()'), why: expect.any(String) };
    expect(report.command.refused).toMatchObject(ways.map(() => refusal));
    expect(await onServer(`SELECT slot_name FROM pg_replication_slots`, version)).toHaveLength(1);
    await target.drop();
  }

  test('are refused, however they are called', () => expectRefused(shareOf(version, WAYS), []));

  /** What is not observed is not parsed either, if its words show that it stays within the clone. */
  test('are refused if nothing is observed', () =>
    expectRefused(
      shareOf(version, WAYS.slice(0, -1)),
      ['CREATE TABLE IF NOT EXISTS own (id int)', 'INSERT INTO own VALUES (1)'],
      { SAFEMIGRATE_OBSERVE: 'off' },
    ));

  test('are refused by the fast-path message, and in an extended and a prepared statement', async () => {
    const target = await temporaryDatabase(version, { sql: SETUP });
    const [fn] = (
      await withClient(target.url, (client) =>
        client.query(
          `SELECT 'app.outer_drop()'::regprocedure::oid::int AS own, 'pg_switch_wal()'::regprocedure::oid::int AS built_in`,
        ),
      )
    ).rows;
    const { report } = await rehearse(
      target.url,
      scriptCommand(`
        const c = await connect();
        const refused = async (run) => { try { await run(); throw new Error('it ran'); } catch (e) { if (e.code !== '42501') throw e; } };
        await refused(() => c.query('SELECT pg_switch_wal(), $1::int', [1]));
        await refused(() => c.query({ name: 'p', text: 'SELECT app.outer_drop()' }));
        await refused(() => c.query('PREPARE q AS SELECT app.outer_drop()'));
        const call = async (oid) => {
          const own = await connect();
          const message = Buffer.alloc(15);
          message.write('F');
          message.writeInt32BE(14, 1);
          message.writeUInt32BE(oid, 5);
          own.on('error', () => {});
          const answer = new Promise((resolve, reject) => {
            own.connection.once('errorMessage', reject);
            own.connection.once('readyForQuery', () => resolve('ready'));
          });
          own.connection.stream.write(message);
          await answer.finally(() => own.end());
        };
        await refused(() => call(${fn.built_in}));
        await refused(() => call(${fn.own}));
        await c.end();`),
    );
    expect(report.command.exitCode).toBe(0);
    expect(report.command.refused.map(({ what }) => what)).toEqual([
      'pg_switch_wal()',
      'outer_drop(), which runs pg_drop_replication_slot()',
      'outer_drop(), which runs pg_drop_replication_slot()',
      'pg_switch_wal()',
      'outer_drop(), which runs pg_drop_replication_slot()',
    ]);
    await target.drop();
  });

  test('run in a copy of the cluster, where they reach nothing of the target', async () => {
    const target = await temporaryDatabase(version, { sql: SETUP });
    const { report } = await rehearse(
      target.url,
      sqlCommand(`SELECT pg_terminate_backend(0), pg_reload_conf(), length(pg_read_file('PG_VERSION'))`),
      { env: { SAFEMIGRATE_CLONE: 'cluster' } },
    );
    const isSandboxed = report.clone.containment === 'sandbox';
    expect(report.command.refused.length).toBe(isSandboxed ? 0 : 1);
    expect(await onServer(`SELECT slot_name FROM pg_replication_slots`, version)).toHaveLength(1);
    await target.drop();
  });

  test('do not stop what only looks like them', async () => {
    const target = await temporaryDatabase(version, { sql: SETUP });
    const { report, exitCode, stderr } = await rehearse(
      target.url,
      sqlCommand(`
        SELECT app.pg_switch_wal(), pg_logical_emit_message(true, 'outbox', 'x'), 'pg_switch_wal()';
        SELECT * FROM app.watched;
        SELECT * FROM app.defaulted;
        CREATE FUNCTION app.kill() RETURNS bool LANGUAGE sql AS 'SELECT pg_terminate_backend(1)';
        GRANT EXECUTE ON FUNCTION pg_terminate_backend TO PUBLIC;
        SELECT pg_cancel_backend(pg_backend_pid()) WHERE false`),
    );
    expect(report.command.refused).toEqual([]);
    expect(report.hazards.map(({ code }) => code)).not.toContain('ACTS_ON_SERVER');
    expect(exitCode, stderr).toBe(0);
    await target.drop();
  });
});

/** Of a superuser. Each would reach beyond the clone in the target's server, and stays within a clone that has a server of its own. */
const BEYOND = [
  'VACUUM FULL',
  'VACUUM FULL pg_authid',
  'REINDEX TABLE pg_database',
  'REINDEX SCHEMA pg_catalog',
  "DO $$ BEGIN EXECUTE 'REINDEX INDEX pg_database_oid_index'; END $$",
  'SET allow_system_table_mods = on',
  'SELECT autoprewarm_dump_now()',
  'DELETE FROM app.dependencies',
  'CREATE VIEW app.others AS TABLE app.dependencies; UPDATE app.others SET deptype = deptype',
];
/** These reach files, so that they are let through only where the server has a sandbox. */
const TO_FILES = [
  "LOAD '/nowhere/evil.so'",
  "CREATE FUNCTION app.evil() RETURNS int LANGUAGE c AS '/nowhere/evil.so', 'evil'",
  "SET dynamic_library_path = '/nowhere'",
  "SELECT set_config('dynamic_library_path', '/nowhere', false)",
  "UPDATE pg_settings SET setting = '/nowhere' WHERE name = 'dynamic_library_path'",
  "ALTER DATABASE {target} SET session_preload_libraries = '/nowhere/evil.so'",
];
const FILE_NUMBERS =
  'SELECT relname, pg_relation_filenode(oid) AS number FROM pg_class WHERE relisshared ORDER BY 1';

describe.each([15, 18] as const)('what reaches beyond the clone, on PostgreSQL %i', (version) => {
  const SHARED = 'CREATE SCHEMA app; CREATE VIEW app.dependencies AS SELECT * FROM pg_shdepend';

  test("is refused in the target's server", async () => {
    const target = await temporaryDatabase(version, { sql: SHARED });
    const before = await onServer(FILE_NUMBERS, version);
    const statements = [...BEYOND, ...TO_FILES].map((sql) => sql.replace('{target}', target.name));
    const { report, stderr } = await rehearse(target.url, sqlstatesOf(statements));
    for (const sql of statements) expect(stderr).toContain(`42501: ${sql}`);
    expect(report.command.refused).toHaveLength(statements.length);
    expect(await onServer(FILE_NUMBERS, version)).toEqual(before);
    await target.drop();
  });

  test('is not refused in a copy of the cluster, but for files where it has no sandbox', async () => {
    const target = await temporaryDatabase(version, { sql: SHARED });
    const statements = [...BEYOND, ...TO_FILES].map((sql) => sql.replace('{target}', target.name));
    const { report } = await rehearse(target.url, sqlstatesOf(statements), {
      env: { SAFEMIGRATE_CLONE: 'cluster' },
    });
    const isSandboxed = report.clone.containment === 'sandbox';
    expect(report.command.refused).toHaveLength(isSandboxed ? 0 : TO_FILES.length);
    await target.drop();
  });
});
