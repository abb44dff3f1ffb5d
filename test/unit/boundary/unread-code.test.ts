import { describe, expect, test } from 'vitest';
import { type ServerCall, ServerCalls } from '../../../src/boundary/server-calls.ts';
import { UnreadCode } from '../../../src/boundary/unread-code.ts';

function found(
  text: string,
  forbidden: readonly string[] = [],
  matters: (call: ServerCall) => boolean = () => true,
) {
  const code = new UnreadCode(new ServerCalls(), { forbidden: new Set(forbidden), matters });
  return code.push(Buffer.from(text)) ?? code.end();
}

describe('in a text that the parser does not read', () => {
  test.each([
    ['SELECT 1 /* … */; create\n-- as a role\n  role r', 'CREATE ROLE'],
    [`/*${'*'.repeat(3000)}*/ ALTER /*${'x'.repeat(3000)} /* */ */ SYSTEM SET x`, 'ALTER SYSTEM'],
    ["DO $$ BEGIN EXECUTE 'drop owned by r'; END $$", 'DROP OWNED'],
    ["DO 'BEGIN EXECUTE ''drop owned by r''; END'", 'DROP OWNED'],
    ['CREATE OR REPLACE FUNCTION f() AS $f$ ALTER DATABASE x SET y TO 1 $f$ LANGUAGE sql', 'ALTER DATABASE'],
    ["COPY t FROM PROGRAM 'true' ((", 'FROM PROGRAM'],
    ["COPY t TO '/tmp/t'", 'COPY OF A FILE'],
    ['GRANT a, b TO c', 'GRANT OF A ROLE'],
    ['REVOKE ADMIN OPTION FOR a FROM b', 'REVOKE OF A ROLE'],
    ['GRANT ALL ON DATABASE x TO y', 'GRANT ON DATABASE'],
    ["COMMENT ON ROLE x IS 'y'", 'COMMENT ON ROLE'],
    ['VACUUM (FULL) t', 'VACUUM FULL'],
    ['REINDEX SYSTEM x', 'REINDEX SYSTEM'],
    ['REPACK (CONCURRENTLY) t', 'REPACK (CONCURRENTLY)'],
    ["LOAD '/tmp/x.so'", 'LOAD'],
    ["CREATE FUNCTION f() RETURNS int AS '/tmp/x.so' LANGUAGE C", 'LANGUAGE C'],
    ["SET extension_control_path = '/tmp'", 'EXTENSION_CONTROL_PATH'],
    ['SELECT U&"pg_switch\\005Fwal"()', 'A NAME IN ESCAPES'],
  ])('finds in %s the statement, wherever it stands', (text, words) => {
    expect(found(text)?.what).toBe(`${words} in a text that cannot be read`);
  });

  test.each([
    ['SELECT (((( pg_catalog."pg_switch_wal" ()', 'pg_switch_wal()'],
    ['DELETE FROM pg_shdepend', 'a change of pg_shdepend'],
    ['TRUNCATE a, "pg_database"', 'a change of pg_database'],
  ])('finds in %s what a name stands for', (text, what) => {
    expect(found(text)?.what).toBe(what);
  });

  test.each([
    "SELECT 'pg_switch_wal()' ((",
    "INSERT INTO users VALUES ('create role and alter system', 'a database role",
    "INSERT INTO users VALUES ($$create role$$, E'\\'alter system')",
    '-- pg_switch_wal()\nSELECT ((',
    'INSERT INTO pg_switch_wal',
    'SELECT * FROM pg_database ((',
    "DO $$ BEGIN PERFORM 1; END $$; INSERT INTO notes VALUES ('create role')",
    'CREATE USER MAPPING FOR x SERVER y',
    'GRANT SELECT ON t TO a',
    'SELECT 1 FROM a JOIN role ON role.id = a.id ((',
    'COPY t FROM STDIN',
    'VACUUM t',
    'REINDEX TABLE t',
    'REPACK t',
    'SET work_mem = 1',
  ])('takes %s for harmless', (text) => {
    expect(found(text)).toBeUndefined();
  });

  test('says of a subscription that it connects, since the parser does not read one by SERVER', () => {
    expect(found('CREATE SUBSCRIPTION s SERVER far PUBLICATION p')?.why).toBe('it connects to the publisher');
  });

  test('tells what a server of the clone would let out', () => {
    const leaves = (text: string) => found(text)?.leaves;
    expect([leaves('CREATE ROLE r'), leaves('ALTER SYSTEM RESET x')]).toEqual(['database', 'database']);
    for (const text of ["COPY t TO '/x'", "LOAD '/x'", 'CREATE SUBSCRIPTION s', 'DROP TABLESPACE t'])
      expect(leaves(text)).toBe('server');
    const out = ({ leaves }: ServerCall) => leaves === 'server';
    expect(found("CREATE ROLE r; COPY t TO PROGRAM 'x'", [], out)?.what).toMatch(/^TO PROGRAM/);
  });

  test('finds words that are forbidden here', () => {
    expect(found('BEGIN READ WRITE', ['write'])?.what).toBe('WRITE in a text that cannot be read');
    expect(found("SELECT 'write'", ['write'])).toBeUndefined();
  });
});
