import { describe, expect, test } from 'vitest';
import { RehearsalGate } from '../../../src/boundary/rehearsal-gate.ts';
import { parseText } from '../../../src/postgres/sql/parse.ts';

const MARKING = `COMMENT ON DATABASE "shop_rehearsal_1" IS 'ours'`;

function guard(
  options: {
    allow?: boolean;
    made?: string[];
    isolation?: 'same-cluster' | 'own-cluster';
    sandboxed?: boolean;
    leftOut?: string[];
    rewritesShared?: (user: string) => boolean;
  } = {},
) {
  const announced: string[] = [...(options.made ?? [])];
  return {
    announced,
    guard: new RehearsalGate({
      names: { target: 'shop', clone: 'shop_rehearsal_1' },
      isolation: options.isolation ?? 'same-cluster',
      sandboxed: options.sandboxed ?? false,
      allow: options.allow ?? false,
      leftOut: new Set(options.leftOut ?? []),
      marking: () => MARKING,
      ...(options.rewritesShared ? { rewritesShared: options.rewritesShared } : {}),
      writingFunction: async (names) => names.find((name) => name === 'nextval'),
      databases: {
        limit: 1234,
        has: (name) => announced.includes(name),
        ownershipStatus: async (name) =>
          announced.includes(name) ? 'made' : name === 'absent' ? 'absent' : 'others',
        announce: async (name) => void announced.push(name),
      },
    }),
  };
}

async function ask(on: RehearsalGate, sql: string, database = 'shop') {
  const statements = await parseText(Buffer.from(sql));
  const [parsed] = statements ?? [];
  return on.before({ session: 1, user: 'app', database, sql, parsed: parsed ?? null });
}

async function translate(on: RehearsalGate, sql: string) {
  return on.translate(sql, (await parseText(Buffer.from(sql))) ?? []);
}

test('only a clone in a sandbox of its own lets everything pass unread, if nothing is observed', () => {
  const open = (options: Parameters<typeof guard>[0]) => guard(options).guard.open;
  expect(open({ isolation: 'own-cluster', sandboxed: true })).toBe(true);
  expect(open({ isolation: 'own-cluster' })).toBe(false);
  expect(open({ isolation: 'same-cluster', sandboxed: true })).toBe(false);
  expect(open({})).toBe(false);
});

describe('a statement that reaches beyond the clone', () => {
  test('only by rights that the role lacks is let through, and not without knowing the role', async () => {
    const { guard: ordinary } = guard({ rewritesShared: (user) => user !== 'app' });
    for (const sql of ['VACUUM FULL', 'VACUUM (FULL, ANALYZE)', 'REINDEX DATABASE shop'])
      expect(await ask(ordinary, sql), sql).toBe('run');
    expect(await ask(ordinary, 'VACUUM FULL pg_authid')).toMatchObject({ sqlstate: '42501' });
    const { guard: other } = guard({ rewritesShared: (user) => user === 'app' });
    expect(await ask(other, 'VACUUM FULL')).toMatchObject({ sqlstate: '42501' });
    expect(await ask(guard().guard, 'VACUUM FULL')).toMatchObject({ sqlstate: '42501' });
  });

  test('is refused with an error of the server, and remembered', async () => {
    const { guard: on } = guard();
    expect(await ask(on, 'ALTER ROLE app CREATEDB')).toMatchObject({ sqlstate: '42501' });
    expect(on.refused).toEqual([{ what: 'ALTER ROLE', why: expect.stringContaining('cluster') }]);
  });

  test('runs where that is allowed, and is remembered too', async () => {
    const { guard: on } = guard({ allow: true });
    expect(await ask(on, 'ALTER ROLE app CREATEDB')).toBe('run');
    expect(on.allowed).toEqual(['ALTER ROLE']);
  });
});

test('the server’s word for what it ran counts, unless the gate has seen the statement', async () => {
  const { guard: on } = guard();
  const completed = async (gate: RehearsalGate, tag: string, sql: string | null) =>
    gate.completed(tag, sql === null ? null : ((await parseText(Buffer.from(sql)))?.[0] ?? null));
  await completed(on, 'CREATE DATABASE', 'CREATE DATABASE shadow');
  await completed(on, 'ALTER DATABASE', 'ALTER DATABASE shop SET work_mem TO 1');
  await completed(on, 'INSERT 0 1', null);
  await completed(on, 'DO', 'DO $$ BEGIN END $$');
  expect(on.ranUnseen).toEqual([]);
  const tags = [
    'ALTER SYSTEM',
    'GRANT ROLE',
    'DROP DATABASE',
    'ALTER ROLE',
    'CREATE SUBSCRIPTION',
    'DROP OWNED',
  ];
  for (const tag of tags) await completed(on, tag, null);
  await completed(on, 'CREATE TABLESPACE', "SELECT 'CREATE TABLESPACE'");
  expect(on.ranUnseen).toEqual([...tags, 'CREATE TABLESPACE']);
  const permitted = guard({ allow: true }).guard;
  const own = guard({ isolation: 'own-cluster' }).guard;
  for (const gate of [permitted, own]) await completed(gate, 'ALTER SYSTEM', null);
  expect([permitted.ranUnseen, own.ranUnseen]).toEqual([[], []]);
});

test('a session that is to begin with a setting is judged as SET is', () => {
  const begin = (options: Parameters<typeof guard>[0]) =>
    guard(options).guard.begins([
      ['work_mem', '5MB'],
      ['extension_control_path', '/tmp'],
    ]);
  const answers = [{}, { isolation: 'own-cluster' }, { isolation: 'own-cluster', sandboxed: true }] as const;
  expect(answers.map((options) => begin(options))).toMatchObject([
    { sqlstate: '42501' },
    { sqlstate: '42501' },
    'run',
  ]);
});

describe('a statement that names the target', () => {
  test.each([
    [
      'ALTER DATABASE shop SET search_path TO app, public;',
      'ALTER DATABASE "shop_rehearsal_1" SET search_path TO app, public;',
    ],
    [
      'SELECT \'é\'; /* DATABASE shop */ GRANT CONNECT ON DATABASE\n"shop" TO app -- shop',
      'SELECT \'é\'; /* DATABASE shop */ GRANT CONNECT ON DATABASE\n"shop_rehearsal_1" TO app -- shop',
    ],
    [
      'ALTER ROLE shop IN DATABASE SHOP SET work_mem TO 1',
      'ALTER ROLE shop IN DATABASE "shop_rehearsal_1" SET work_mem TO 1',
    ],
    ["SELECT 1; COMMENT ON DATABASE shop IS 'the shop'; SELECT 2", `SELECT 1; ${MARKING}; SELECT 2`],
  ])('is led to the clone: %s', async (sql, led) => {
    const { guard: on } = guard();
    expect(await translate(on, sql)).toBe(led);
    expect(on.redirected).toHaveLength(1);
  });

  test('runs as it is where it only seems to', async () => {
    const { guard: on } = guard();
    expect(await translate(on, "SELECT 'ALTER DATABASE shop SET x TO 1'")).toBeUndefined();
  });

  test('is refused where its name is written so that it could not be led there', async () => {
    const { guard: on } = guard();
    const sql = 'ALTER DATABASE U&"sh\\006Fp" SET work_mem TO 1';
    expect(await ask(on, (await translate(on, sql)) ?? sql)).toMatchObject({ sqlstate: '42501' });
  });
});

describe('a database that the command makes for itself', () => {
  test('is announced before it is made, and marked by its limit', async () => {
    const { guard: on, announced } = guard();
    const sql = await translate(on, 'CREATE DATABASE shadow ENCODING UTF8 -- for migrate dev');
    expect(sql).toContain('\nCONNECTION LIMIT 1234');
    expect(await ask(on, sql ?? '')).toBe('run');
    expect(announced).toEqual(['shadow']);
  });

  test.each([
    [
      'CREATE DATABASE shadow CONNECTION LIMIT 5 ENCODING UTF8',
      'CREATE DATABASE shadow CONNECTION LIMIT 1234 ENCODING UTF8',
    ],
    [
      'CREATE DATABASE shadow WITH CONNECTION /* x */ LIMIT = -1;',
      'CREATE DATABASE shadow WITH CONNECTION LIMIT 1234;',
    ],
  ])('is marked where it has a limit of its own: %s', async (sql, marked) => {
    const { guard: on } = guard();
    expect(await translate(on, sql)).toBe(marked);
  });

  test('is no copy of the target', async () => {
    const { guard: on } = guard();
    expect(await ask(on, 'CREATE DATABASE shadow TEMPLATE shop')).toMatchObject({ sqlstate: '42501' });
    expect(await ask(on, 'CREATE DATABASE shadow TEMPLATE template0')).toBe('run');
  });

  test('may be dropped by it, and no other may', async () => {
    const { guard: on } = guard({ made: ['shadow'] });
    expect(await ask(on, 'DROP DATABASE shadow')).toBe('run');
    expect(await ask(on, 'DROP DATABASE IF EXISTS absent')).toBe('run');
    expect(await ask(on, 'DROP DATABASE shop')).toMatchObject({ sqlstate: '42501' });
    expect(await ask(on, 'DROP DATABASE billing')).toMatchObject({ sqlstate: '42501' });
  });

  test.each([
    'ALTER DATABASE shadow SET search_path TO app',
    'ALTER DATABASE shadow OWNER TO app',
    'GRANT CONNECT ON DATABASE shadow TO app',
    "COMMENT ON DATABASE shadow IS 'for migrate dev'",
    'ALTER ROLE app IN DATABASE shadow SET work_mem TO 1',
  ])('is its own to change: %s', async (sql) => {
    const { guard: on } = guard({ made: ['shadow'] });
    expect(await translate(on, sql)).toBeUndefined();
    expect(await ask(on, sql)).toBe('run');
    expect(await ask(guard().guard, sql)).toMatchObject({ sqlstate: '42501' });
  });

  test('keeps the limit that marks it, and stays one that can be dropped', async () => {
    const { guard: on } = guard({ made: ['shadow'] });
    expect(await translate(on, 'ALTER DATABASE shadow CONNECTION LIMIT 5')).toBe(
      'ALTER DATABASE shadow CONNECTION LIMIT 1234',
    );
    expect(await ask(on, 'ALTER DATABASE shadow IS_TEMPLATE true')).toMatchObject({ sqlstate: '42501' });
    expect(await translate(on, 'GRANT CONNECT ON DATABASE shop, shadow TO app')).toBe(
      'GRANT CONNECT ON DATABASE "shop_rehearsal_1", shadow TO app',
    );
  });

  test('is its own to work in, while in others of the server it may only look around', async () => {
    const { guard: on } = guard({ made: ['shadow'] });
    expect(await ask(on, 'CREATE TABLE t (id int)', 'shadow')).toBe('run');
    expect(await ask(on, 'SELECT 1 FROM pg_database', 'postgres')).toBe('run');
    expect(await ask(on, 'PREPARE p AS SELECT 1', 'postgres')).toBe('run');
  });

  test('sessions elsewhere are read-only, but for what makes, changes and drops that database', async () => {
    const { guard: on } = guard({ made: ['shadow'] });
    expect(['shop', 'shadow', 'postgres'].map((name) => on.readsOnly(name))).toEqual([false, false, true]);
    expect(guard({ allow: true }).guard.readsOnly('postgres')).toBe(false);
    expect(guard({ isolation: 'own-cluster' }).guard.readsOnly('postgres')).toBe(false);
    const mayWrite = async (sql: string) => {
      const [parsed = null] = (await parseText(Buffer.from(sql))) ?? [];
      return on.mayWrite({ session: 1, user: 'app', database: 'postgres', sql, parsed });
    };
    for (const sql of [
      'CREATE DATABASE other',
      'DROP DATABASE shadow',
      'ALTER DATABASE shadow SET work_mem TO 1',
    ])
      expect(await mayWrite(sql), sql).toBe(true);
    for (const sql of ['ALTER DATABASE shop SET work_mem TO 1', 'CREATE TABLE t ()', 'SELECT 1', 'CREATE ('])
      expect(await mayWrite(sql), sql).toBe(false);
  });

  test.each([
    'BEGIN READ WRITE',
    'START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE',
    'SET TRANSACTION READ WRITE',
    'SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE',
    'SET transaction_read_only = off',
    'SET LOCAL "Transaction_Read_Only" TO false',
    'SET default_transaction_read_only = 0',
    'RESET transaction_read_only',
    'SET transaction_read_only TO DEFAULT',
    "SELECT set_config('transaction_read_only', 'off', true)",
    "COPY (SELECT pg_catalog.set_config('default_' || 'transaction_read_only', 'off', true)) TO STDOUT",
    'SET transaction_read_only = off; SELECT (',
  ])('nor be made to write by %s', async (sql) => {
    expect(await ask(guard().guard, sql, 'postgres')).toMatchObject({ sqlstate: '42501' });
    expect(await ask(guard().guard, sql)).toBe('run');
  });

  test.each([
    'BEGIN',
    'BEGIN READ ONLY',
    'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY',
    'SET transaction_read_only = on',
    'SET search_path = app',
    'RESET ALL',
    'DISCARD ALL',
    "SELECT set_config('search_path', '', false)",
    'SELECT (',
  ])('while it may still send %s', async (sql) => {
    expect(await ask(guard().guard, sql, 'postgres')).toBe('run');
  });

  test.each([
    'CREATE TABLE t (id int)',
    'SELECT 1 AS one INTO t',
    'WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone',
    'PREPARE p AS INSERT INTO t VALUES (1)',
    "SELECT nextval('numbers')",
    "PREPARE p AS SELECT * FROM nextval('numbers')",
  ])('in another database of the server it may not run %s', async (sql) => {
    const { guard: on } = guard({ made: ['shadow'] });
    expect(await ask(on, sql, 'postgres')).toMatchObject({ sqlstate: '42501' });
    expect(await ask(on, sql, 'shadow')).toBe('run');
  });
});

describe('the guard of a clone in a cluster of its own', () => {
  test.each([
    'ALTER ROLE app LOGIN',
    'DROP DATABASE other',
    'ALTER SYSTEM SET work_mem = 1',
    'SELECT pg_terminate_backend(1)',
    'REASSIGN OWNED BY a TO b',
    'ALTER DATABASE shop SET work_mem = 1',
    "COMMENT ON DATABASE shop IS 'theirs'",
  ])('lets %s run as it was written', async (sql) => {
    const { guard: own } = guard({ isolation: 'own-cluster' });
    expect(await ask(own, sql)).toBe('run');
    expect(await own.translate(sql, (await parseText(Buffer.from(sql))) ?? [])).toBeUndefined();
    expect(own.refused).toEqual([]);
  });

  test.each([
    "COPY t TO PROGRAM 'rm -rf /'",
    "COPY t FROM '/etc/passwd'",
    "CREATE SUBSCRIPTION s CONNECTION 'host=prod' PUBLICATION p",
    "SELECT dblink('host=prod', 'DROP TABLE t')",
    "SELECT lo_export(1, '/tmp/x')",
    "CREATE TABLESPACE t LOCATION '/mnt'",
  ])('refuses %s, which reaches beyond that cluster', async (sql) => {
    const { guard: own } = guard({ isolation: 'own-cluster' });
    expect(await ask(own, sql)).toMatchObject({ sqlstate: '42501' });
    expect(own.refused).toHaveLength(1);
  });
});

describe('the guard of a clone in a sandbox', () => {
  test.each([
    "SELECT lo_export(1, '/tmp/x')",
    "SELECT dblink('host=prod', 'DROP TABLE t')",
    "DO $$ BEGIN PERFORM pg_read_file('PG_VERSION'); END $$",
    'SELECT pg_terminate_backend(1)',
  ])('lets %s run, which can reach nothing', async (sql) => {
    const { guard: sandboxed } = guard({ isolation: 'own-cluster', sandboxed: true });
    expect(await ask(sandboxed, sql)).toBe('run');
    expect(sandboxed.refused).toEqual([]);
  });

  test('says why a database whose files were not copied cannot be a template', async () => {
    const { guard: sandboxed } = guard({ isolation: 'own-cluster', sandboxed: true, leftOut: ['other'] });
    expect(await ask(sandboxed, 'CREATE DATABASE copied TEMPLATE other')).toMatchObject({
      sqlstate: '3D000',
      message: 'the clone does not have the files of the database "other"',
      hint: expect.stringContaining("--database 'other'"),
    });
    expect(await ask(sandboxed, 'CREATE DATABASE copied TEMPLATE template0')).toBe('run');
    expect(sandboxed.refused).toEqual([]);
  });

  test('still refuses a function of files in the target’s own server', async () => {
    const { guard: shared } = guard({ isolation: 'same-cluster', sandboxed: true });
    expect(await ask(shared, "SELECT lo_export(1, '/tmp/x')")).toMatchObject({ sqlstate: '42501' });
  });
});
