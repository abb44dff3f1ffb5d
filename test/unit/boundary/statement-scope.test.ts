import { parse } from 'libpg-query';
import { describe, expect, test } from 'vitest';
import { classifyScope, type StatementScope } from '../../../src/boundary/statement-scope.ts';
import type { Node } from '../../../src/postgres/sql/tree.ts';

const NAMES = { target: 'shop', clone: 'shop_rehearsal_1' };

async function reach(sql: string): Promise<StatementScope> {
  const { stmts } = await parse(sql);
  const node = stmts?.[0]?.stmt;
  if (!node) throw new Error(`no statement: ${sql}`);
  return classifyScope(node as Node, NAMES);
}

describe('stops what takes effect beyond the clone', () => {
  test.each([
    'CREATE ROLE app',
    "CREATE USER app PASSWORD 'x'",
    'ALTER ROLE app CREATEDB',
    'ALTER GROUP staff ADD USER app',
    'ALTER ROLE app SET work_mem TO 1',
    'ALTER ROLE ALL SET work_mem TO 1',
    'ALTER ROLE app RENAME TO other',
    'DROP ROLE app',
    'GRANT staff TO app',
    'REVOKE staff FROM app',
    "COMMENT ON ROLE app IS 'x'",
    'REASSIGN OWNED BY app TO other',
    'DROP OWNED BY app',
    'ALTER SYSTEM SET work_mem TO 1',
    "CREATE TABLESPACE fast LOCATION '/x'",
    'DROP TABLESPACE fast',
    'ALTER TABLESPACE fast SET (random_page_cost = 1)',
    'ALTER TABLESPACE fast RENAME TO slow',
    'ALTER TABLESPACE fast OWNER TO app',
    'GRANT CREATE ON TABLESPACE fast TO app',
    'GRANT SET ON PARAMETER work_mem TO app',
    "CREATE SUBSCRIPTION s CONNECTION 'host=x' PUBLICATION p",
    'ALTER SUBSCRIPTION s DISABLE',
    'DROP SUBSCRIPTION s',
    'ALTER DATABASE billing SET work_mem TO 1',
    'GRANT CONNECT ON DATABASE shop, billing TO app',
    'ALTER DATABASE shop RENAME TO shop2',
    "COMMENT ON DATABASE billing IS 'x'",
    'ALTER ROLE app IN DATABASE billing SET work_mem TO 1',
    "COPY customers TO '/tmp/customers'",
    "COPY customers FROM PROGRAM 'curl x'",
    'LOCK TABLE pg_authid',
    'LOCK TABLE customers, pg_catalog.pg_database IN SHARE MODE',
    'VACUUM FULL',
    'VACUUM (FULL, ANALYZE) customers, pg_authid',
    'VACUUM FULL pg_toast.pg_toast_1262',
    'REINDEX TABLE pg_database',
    'REINDEX INDEX pg_catalog.pg_auth_members_role_member_index',
    'REINDEX SYSTEM shop',
    'REINDEX DATABASE shop',
    'REINDEX SCHEMA pg_catalog',
    "LOAD '/tmp/evil.so'",
    "LOAD 'lib/evil'",
    "LOAD '$libdir/../evil'",
    "CREATE FUNCTION f() RETURNS int LANGUAGE c AS '/tmp/evil.so', 'f'",
    "CREATE FUNCTION f() RETURNS int AS '$libdir/../evil' LANGUAGE 'C'",
    "SET dynamic_library_path = '/tmp'",
    "SET LOCAL Extension_Control_Path TO '/tmp'",
    "ALTER DATABASE shop SET session_preload_libraries = '/tmp/evil.so'",
    "ALTER ROLE app IN DATABASE shop SET dynamic_library_path = '/tmp'",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET dynamic_library_path = '/tmp' AS 'SELECT 1'",
    "ALTER FUNCTION f() SET extension_control_path = '/tmp'",
    'SET allow_system_table_mods = on',
  ])('%s', async (sql) => {
    expect(await reach(sql)).toMatchObject({ kind: 'beyond' });
  });
});

describe('leads what names the target by its own name to the clone', () => {
  test.each([
    'ALTER DATABASE shop SET search_path TO app',
    'ALTER DATABASE shop CONNECTION LIMIT 5',
    'ALTER DATABASE shop OWNER TO app',
    'GRANT CONNECT ON DATABASE shop TO app',
    'REVOKE ALL ON DATABASE shop FROM PUBLIC',
    "COMMENT ON DATABASE shop IS 'the shop'",
    'ALTER ROLE app IN DATABASE shop SET work_mem TO 1',
  ])('%s', async (sql) => {
    expect(await reach(sql)).toMatchObject({ kind: 'redirect' });
  });
});

describe('lets pass what stays in the clone', () => {
  test.each([
    'ALTER DATABASE shop_rehearsal_1 SET search_path TO app',
    'CREATE TABLE t (id int)',
    'LOCK TABLE t IN SHARE MODE',
    'LOCK app.pg_authid',
    'GRANT SELECT ON t TO app',
    "COMMENT ON TABLE t IS 'x'",
    'ALTER TABLE t OWNER TO app',
    'ALTER TABLE t RENAME TO u',
    'ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON TABLES TO other',
    'COPY t FROM STDIN',
    'COPY t TO STDOUT',
    'SET ROLE app',
    'VACUUM',
    'VACUUM ANALYZE pg_authid',
    'VACUUM (FULL off)',
    'VACUUM FULL customers, app.pg_authid',
    'REINDEX TABLE customers',
    'REINDEX INDEX pg_subscription_rel_srrelid_srsubid_index',
    'REINDEX DATABASE',
    'REINDEX DATABASE CONCURRENTLY shop_rehearsal_1',
    'REINDEX SCHEMA app',
    "LOAD 'auto_explain'",
    "LOAD '$libdir/auto_explain'",
    "CREATE FUNCTION f() RETURNS int LANGUAGE c AS '$libdir/ltree', 'f'",
    "CREATE FUNCTION f() RETURNS int LANGUAGE c AS 'MODULE_PATHNAME', 'f'",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET search_path = app AS '/tmp/evil.so'",
    'RESET dynamic_library_path',
    "SET work_mem = '5MB'",
  ])('%s', async (sql) => {
    expect(await reach(sql)).toEqual({ kind: 'within' });
  });
});

test('names the databases that a command makes and drops for itself', async () => {
  expect(await reach('CREATE DATABASE shadow')).toEqual({ kind: 'create-database', database: 'shadow' });
  expect(await reach('DROP DATABASE IF EXISTS shadow')).toEqual({
    kind: 'drop-database',
    database: 'shadow',
  });
});

test('takes a kind of statement that the table does not have as one that reaches anything', () => {
  expect(classifyScope({ DefragmentStmt: {} }, NAMES)).toMatchObject({ kind: 'beyond', leaves: 'server' });
});
