import { describe, expect, test } from 'vitest';
import { findServerCall } from '../../../src/boundary/find-server-call.ts';
import { type ServerCall, ServerCalls } from '../../../src/boundary/server-calls.ts';
import { classifyScope } from '../../../src/boundary/statement-scope.ts';
import { parseText, textOf } from '../../../src/postgres/sql/parse.ts';
import { JUDGED_STATEMENTS } from '../../helpers/judged-statements.ts';

const NAMES = { target: 'shop', clone: 'shop_rehearsal_1' };

/** What the last statement of a text would do, after those before it. */
async function found(sql: string): Promise<ServerCall | undefined> {
  const known = { calls: new ServerCalls(), names: NAMES };
  const text = Buffer.from(sql);
  const statements = await parseText(text);
  if (!statements) throw new Error(`no statement: ${sql}`);
  let call: ServerCall | undefined;
  for (const { from, to, node } of statements)
    call = await findServerCall(textOf(text, from, to), node, known);
  return call;
}

const FUNCTION =
  'CREATE FUNCTION app.f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_switch_wal(); END $$';
const TRIGGER = `${FUNCTION.replace('void', 'trigger')}; CREATE TRIGGER t AFTER INSERT ON jobs EXECUTE FUNCTION app.f()`;

describe('finds what acts on the server', () => {
  test.each([
    'SELECT pg_reload_conf()',
    'SELECT autoprewarm_dump_now()',
    "SELECT set_config('dynamic_library_path', '/tmp', false)",
    "DO $$ BEGIN PERFORM set_config('extension_control_path', '/tmp', true); END $$",
    "UPDATE pg_settings SET setting = '/tmp' WHERE name = 'dynamic_library_path'",
    "DO $$ BEGIN LOAD '/tmp/evil.so'; END $$",
    "DO $$ BEGIN EXECUTE 'REINDEX TABLE pg_database'; END $$",
    "DO $$ BEGIN EXECUTE 'SET dynamic_library_path = ''/tmp'''; END $$",
    `DO $$ BEGIN EXECUTE 'CREATE FUNCTION f() RETURNS int LANGUAGE c AS ''/tmp/evil.so'''; END $$`,
    'CREATE VIEW v AS SELECT * FROM pg_shdepend; DELETE FROM v',
    'CREATE VIEW v AS SELECT * FROM pg_database; CREATE VIEW app.w AS TABLE v; UPDATE w SET datconnlimit = 1',
    'CREATE VIEW v AS TABLE pg_shdepend; DO $$ BEGIN DELETE FROM v; END $$',
    'CREATE VIEW v AS TABLE pg_shdepend; ALTER VIEW v RENAME TO w; DELETE FROM w',
    'CREATE TABLE t (); CREATE RULE r AS ON DELETE TO t DO INSTEAD DELETE FROM pg_shdepend; DELETE FROM t',
    'SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_stat_activity',
    'SELECT U&"pg_switch\\005Fwal"()',
    "INSERT INTO log SELECT pg_drop_replication_slot('s')",
    'EXECUTE p(pg_reload_conf())',
    'PREPARE p AS SELECT pg_reload_conf()',
    "WITH x AS (SELECT lo_export(1, '/tmp/x')) SELECT * FROM x",
    "CREATE TABLE t AS SELECT * FROM dblink('dbname=shop', 'select 1') AS r(i int)",
    'CREATE TABLE t (at pg_lsn DEFAULT pg_switch_wal())',
    'CALL p(pg_switch_wal())',
    "SELECT query_to_xml('select pg_switch_wal()', true, true, '')",
    'DO $$ BEGIN PERFORM pg_switch_wal(); END $$',
    'DO $$ DECLARE lsn pg_lsn := pg_switch_wal(); BEGIN END $$',
    'DO $$ DECLARE a pg_lsn[]; BEGIN a[1] := pg_switch_wal(); END $$',
    'DO $$ BEGIN IF pg_reload_conf() THEN NULL; END IF; END $$',
    "DO $$ BEGIN EXECUTE 'SELECT pg_switch_wal()'; END $$",
    "DO $$ BEGIN EXECUTE format('SELECT pg_terminate_backend(%s)', 1); END $$",
    "DO $$ BEGIN EXECUTE 'SELECT pg_terminate_backend' || '(1)'; END $$",
    "DO $$ DECLARE r record; BEGIN FOR r IN EXECUTE 'SELECT pg_switch_wal()' LOOP NULL; END LOOP; END $$",
    "DO $$ BEGIN COPY jobs TO PROGRAM 'cat'; END $$",
    "DO $$ BEGIN EXECUTE 'ALTER ROLE app CREATEDB'; END $$",
    "DO $$ BEGIN EXECUTE 'ALTER DATABASE shop SET work_mem TO 1'; END $$",
    'DO LANGUAGE plperl $$ spi_exec_query("SELECT pg_switch_wal()") $$',
    `${FUNCTION}; SELECT app.f()`,
    `${FUNCTION}; SELECT f()`,
    `${FUNCTION}; DO $$ BEGIN PERFORM app.f(); END $$`,
    `${FUNCTION}; ALTER FUNCTION app.f() RENAME TO g; SELECT app.g()`,
    `${FUNCTION}; CREATE OPERATOR @@@ (FUNCTION = app.f, RIGHTARG = int)`,
    `${FUNCTION.replace('void', 'event_trigger')}; CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION app.f()`,
    'CREATE FUNCTION f() RETURNS bool LANGUAGE sql BEGIN ATOMIC SELECT pg_reload_conf(); END; SELECT f()',
    'CREATE FUNCTION f() RETURNS bool LANGUAGE sql RETURN pg_reload_conf(); SELECT f()',
    "CREATE FUNCTION f() RETURNS bool LANGUAGE sql AS 'SELECT pg_reload_conf()'; SELECT f()",
    "PREPARE p AS SELECT f(); CREATE FUNCTION f() RETURNS bool LANGUAGE sql AS 'SELECT pg_reload_conf()'; EXECUTE p",
    'CREATE VIEW v AS SELECT pg_reload_conf(); SELECT * FROM v',
    'CREATE VIEW v AS SELECT pg_reload_conf(); CREATE VIEW w AS SELECT * FROM v; SELECT * FROM w',
    `${TRIGGER}; INSERT INTO jobs VALUES (1)`,
    `${TRIGGER}; COPY jobs FROM STDIN`,
    'DELETE FROM pg_shdepend',
    'UPDATE pg_catalog.pg_database SET datallowconn = false',
    'TRUNCATE jobs, pg_shdescription',
    "DO $$ BEGIN INSERT INTO pg_db_role_setting VALUES (0, 10, '{}'); END $$",
    'CREATE RULE r AS ON UPDATE TO jobs DO ALSO SELECT pg_switch_wal(); UPDATE jobs SET id = 1',
  ])('%s', async (sql) => {
    expect(await found(sql)).toMatchObject({ what: expect.any(String), why: expect.any(String) });
  });
});

describe('lets pass what stays in the clone', () => {
  test.each([
    FUNCTION,
    TRIGGER,
    'CREATE VIEW v AS SELECT pg_reload_conf()',
    'GRANT EXECUTE ON FUNCTION pg_terminate_backend(int, bigint) TO app',
    "COMMENT ON FUNCTION pg_switch_wal() IS 'no'",
    "INSERT INTO notes VALUES ('call pg_switch_wal() by night')",
    'SELECT pg_terminate_backend FROM jobs',
    'SELECT pg_terminate_backend(pg_backend_pid())',
    'SELECT pg_logical_emit_message(true, $1, $2)',
    'SELECT public.pg_switch_wal()',
    `CREATE FUNCTION public.pg_switch_wal() RETURNS int LANGUAGE sql AS 'SELECT 1'; SELECT public.pg_switch_wal()`,
    "CREATE FUNCTION dblink(text) RETURNS int LANGUAGE sql AS 'SELECT 1'; SELECT dblink('x')",
    `${FUNCTION}; CREATE OR REPLACE FUNCTION app.f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$; SELECT app.f()`,
    `${FUNCTION}; SELECT other.f()`,
    `${TRIGGER}; SELECT * FROM jobs`,
    `${TRIGGER}; DROP TRIGGER t ON jobs; INSERT INTO jobs VALUES (1)`,
    "DO $$ BEGIN RAISE NOTICE 'then call pg_switch_wal()'; END $$",
    'DO $$ BEGIN -- pg_switch_wal()\nPERFORM 1; END $$',
    "DO $$ BEGIN UPDATE users SET role = 'user' WHERE grantee = 1; END $$",
    'DO $$ BEGIN GRANT SELECT ON jobs TO app; END $$',
    'SELECT pg_advisory_lock(1), pg_backend_pid()',
  ])('%s', async (sql) => {
    expect(await found(sql)).toBeUndefined();
  });
});

test('finds in a block every statement that would reach beyond the clone by itself', async () => {
  const missed: string[] = [];
  for (const sql of JUDGED_STATEMENTS) {
    const [statement] = (await parseText(Buffer.from(sql))) ?? [];
    const reaches = statement && ['beyond', 'redirect'].includes(classifyScope(statement.node, NAMES).kind);
    if (reaches && !(await found(`DO $body$ BEGIN ${sql}; END $body$`))) missed.push(sql);
  }
  expect(missed).toEqual([]);
});
