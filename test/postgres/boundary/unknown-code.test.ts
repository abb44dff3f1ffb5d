import { describe, expect, test } from 'vitest';
import { unknownElsewhere, unknownInStatement } from '../../../src/boundary/harmless-statement.ts';
import { findUsesOf, readUnknownCode } from '../../../src/boundary/read-unknown-code.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { parseText, textOf } from '../../../src/postgres/sql/parse.ts';
import { scratch } from '../../helpers/scratch.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

/** What a production database has. */
const TARGET = `
CREATE TABLE orders (id int PRIMARY KEY, total numeric NOT NULL, updated_at timestamptz DEFAULT now());
CREATE TABLE items (id int PRIMARY KEY, order_id int REFERENCES orders ON DELETE CASCADE, label text);
CREATE TABLE audited (id int PRIMARY KEY, note text);
CREATE TABLE referenced (id int PRIMARY KEY);
CREATE TABLE cascading (id int REFERENCES referenced ON DELETE CASCADE);
CREATE TABLE parts (id int) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.updated_at := now(); RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touch();
CREATE FUNCTION exec(q text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE q; END $$;
CREATE FUNCTION calls_exec(q text) RETURNS void LANGUAGE sql AS 'SELECT exec(q)';
CREATE FUNCTION atomic_exec(q text) RETURNS void LANGUAGE sql BEGIN ATOMIC SELECT exec(q); END;
CREATE FUNCTION exec_arg() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE TG_ARGV[0]; RETURN NEW; END $$;
CREATE TRIGGER audit AFTER INSERT ON audited EXECUTE FUNCTION exec_arg('SELECT 1');
CREATE TRIGGER audit AFTER DELETE ON cascading EXECUTE FUNCTION exec_arg('SELECT 1');
CREATE TRIGGER audit AFTER INSERT ON parts_1 FOR EACH ROW EXECUTE FUNCTION exec_arg('SELECT 1');
CREATE FUNCTION writes_audited() RETURNS void LANGUAGE sql AS 'INSERT INTO audited VALUES (1)';
CREATE FUNCTION reads_audited() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM audited';
CREATE FUNCTION plain() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$;
CREATE FUNCTION uses_plain() RETURNS int LANGUAGE sql AS 'SELECT plain()';
CREATE FUNCTION fixed() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'REFRESH MATERIALIZED VIEW totals'; END $$;
CREATE MATERIALIZED VIEW totals AS SELECT sum(total) FROM orders;
CREATE VIEW seen AS SELECT id FROM audited;
CREATE VIEW xml AS SELECT query_to_xml('SELECT 1', true, true, '') AS x;
CREATE VIEW xml_again AS SELECT * FROM xml;
CREATE VIEW shared AS SELECT * FROM pg_database;
CREATE FUNCTION checks(t text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN EXECUTE t; RETURN true; END $$;
CREATE DOMAIN checked AS text CHECK (checks(VALUE));
CREATE TABLE of_domain (id int, c checked);
CREATE TABLE with_default (id int, c xml DEFAULT query_to_xml('SELECT 1', true, true, ''));
CREATE TABLE ruled (id int);
CREATE RULE r AS ON INSERT TO ruled DO ALSO SELECT exec('SELECT 1');
CREATE FUNCTION op(int, int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SELECT ' || $1; RETURN 1; END $$;
CREATE OPERATOR @@@@ (FUNCTION = op, LEFTARG = int, RIGHTARG = int);
CREATE AGGREGATE agg(int) (SFUNC = op, STYPE = int);
`;

/** A table whose index runs a text when it is looked after. */
const WITH_INDEX = `
CREATE FUNCTION hides(a int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SELECT ' || a; RETURN a; END $$;
CREATE TABLE indexed (id int);
CREATE INDEX ON indexed (hides(id));
`;

const HARMLESS = [
  'SELECT 1',
  'SELECT now(), random(), gen_random_uuid(), count(*), version() FROM orders',
  "SELECT pg_advisory_lock(1), set_config('search_path', '', false), nextval('s'::regclass)",
  'INSERT INTO orders VALUES (1, 2)',
  'UPDATE orders SET total = 3',
  'DELETE FROM orders',
  'DELETE FROM items WHERE order_id IN (SELECT id FROM audited)',
  'SELECT * FROM audited',
  'SELECT * FROM seen',
  'SELECT * FROM pg_stat_activity JOIN pg_locks USING (pid)',
  'SELECT reads_audited(), uses_plain()',
  'SELECT fixed()',
  'SELECT * FROM shared',
  'ALTER TABLE audited ADD COLUMN more text',
  'ALTER TABLE orders ADD COLUMN c int DEFAULT 0 CHECK (c >= 0)',
  'CREATE INDEX CONCURRENTLY ON audited (note)',
  'CREATE TABLE n (id bigint GENERATED ALWAYS AS IDENTITY, x int, y int GENERATED ALWAYS AS (x * 2) STORED)',
  "CREATE TYPE mood AS ENUM ('sad', 'glad')",
  "ALTER TYPE mood ADD VALUE 'so so'",
  'CREATE MATERIALIZED VIEW m AS SELECT sum(total) FROM orders',
  'REFRESH MATERIALIZED VIEW CONCURRENTLY totals',
  'CREATE EXTENSION IF NOT EXISTS "uuid-ossp"',
  'CREATE EXTENSION pgcrypto',
  'CREATE EXTENSION citext',
  'CREATE TABLE p2 PARTITION OF parts FOR VALUES FROM (100) TO (200)',
  "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_type WHERE typname = 'x') THEN CREATE TYPE x AS ENUM ('a'); END IF; END $$",
  "DO $$ BEGIN EXECUTE 'ALTER TABLE orders ADD COLUMN d int'; END $$",
  'CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ DECLARE n orders%ROWTYPE; BEGIN NULL; END $$; SELECT f()',
  'CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.a := now(); RETURN NEW; END $$; CREATE TRIGGER f BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION f(); UPDATE items SET label = $$x$$',
  'CREATE FUNCTION f(t text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE t; END $$',
  'DROP FUNCTION exec(text)',
  'GRANT EXECUTE ON FUNCTION exec(text) TO PUBLIC',
  "COMMENT ON FUNCTION exec(text) IS 'runs a text'",
  "SET lock_timeout = '1s'",
  "SET client_encoding = 'UTF8'; SET standard_conforming_strings = on; SET check_function_bodies = false",
  'RESET ALL',
  'DISCARD ALL',
  "SET client_encoding = 'LATIN1'; SELECT 1; SET client_encoding = 'SQL_ASCII'; SET client_encoding TO 'win1252'",
  "SELECT set_config('client_encoding', 'latin1', false)",
  'ANALYZE',
  'VACUUM',
  'VACUUM FULL orders',
  'REINDEX TABLE orders',
  'CLUSTER',
  'DO $$ BEGIN CREATE FUNCTION h() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN RETURN plain(); END $f$; PERFORM h(); END $$',
  "DO $$ BEGIN EXECUTE 'CREATE OR REPLACE FUNCTION h() RETURNS int LANGUAGE sql AS ''SELECT 1'''; END $$",
  'DO $$ BEGIN CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN NEW.id := 1; RETURN NEW; END $f$; CREATE TRIGGER t BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION t(); INSERT INTO orders VALUES (1, 2); END $$',
  'ANALYZE orders',
  'VACUUM orders',
  'PREPARE p AS SELECT * FROM orders; EXECUTE p',
  'DECLARE c CURSOR FOR SELECT * FROM orders; FETCH ALL FROM c',
  'TRUNCATE orders',
  'COPY orders FROM STDIN',
  'LOCK TABLE orders',
];

/** `x`: what is not known. */
const UNKNOWN: readonly (readonly [sql: string, what: string])[] = [
  ["SELECT exec('SELECT pg_cancel_backend(1)')", 'the function exec()'],
  ["SELECT calls_exec('x')", 'the function calls_exec()'],
  ["SELECT atomic_exec('x')", 'the function atomic_exec()'],
  ['SELECT writes_audited()', 'the function writes_audited()'],
  ["CREATE FUNCTION g() RETURNS void LANGUAGE sql AS $$ SELECT exec('x') $$; SELECT g()", 'the function g()'],
  [
    "CREATE TRIGGER t AFTER INSERT ON items EXECUTE FUNCTION exec_arg('SELECT pg_switch_wal()'); INSERT INTO items VALUES (1)",
    'exec_arg',
  ],
  ["SELECT query_to_xml('select pg_can' || 'cel_backend(1)', true, true, '')", 'query_to_xml()'],
  ["SELECT ts_rewrite('a'::tsquery, 'select pg_switch_wal()')", 'ts_rewrite()'],
  ["CREATE VIEW v AS SELECT 1; SELECT table_to_xml('v', true, true, '')", 'table_to_xml()'],
  ["SELECT domain_in('a', 'checked'::regtype, -1)", 'domain_in()'],
  ['SELECT * FROM xml', 'xml'],
  ['SELECT * FROM xml_again', 'xml_again'],
  ["UPDATE shared SET datcollversion = '1'", 'shared'],
  ['CREATE VIEW vs AS SELECT * FROM pg_shdepend; DELETE FROM vs', 'pg_shdepend'],
  [
    'CREATE VIEW vs AS SELECT * FROM pg_shdepend; CREATE VIEW vt AS SELECT * FROM vs; DELETE FROM vt',
    'pg_shdepend',
  ],
  ["UPDATE pg_proc SET prosrc = 'x'", 'a change of pg_proc'],
  ['INSERT INTO audited VALUES (1)', 'a trigger of audited'],
  ['WITH x AS (INSERT INTO audited VALUES (1) RETURNING id) SELECT * FROM x', 'a trigger of audited'],
  ['COPY audited FROM STDIN', 'a trigger of audited'],
  ['INSERT INTO seen VALUES (1)', 'seen'],
  ['DELETE FROM referenced', 'a trigger of referenced'],
  ['INSERT INTO parts VALUES (1)', 'a trigger of parts'],
  ['INSERT INTO of_domain VALUES (1)', 'of_domain'],
  ["SELECT 'x'::checked", 'checked'],
  ["SELECT '{x}'::checked[]", 'checked'],
  ['INSERT INTO with_default VALUES (1)', 'with_default'],
  ['INSERT INTO ruled VALUES (1)', 'ruled'],
  ['SELECT 1 @@@@ 2', '@@@@'],
  ['SELECT agg(id) FROM orders', 'agg'],
  ['ALTER FUNCTION exec(text) SET SCHEMA pg_temp; SELECT pg_temp.exec($$x$$)', 'the function exec()'],
  ['ALTER FUNCTION exec(text) RENAME TO other; SELECT other($$x$$)', 'the function exec()'],
  ['ALTER TABLE audited RENAME TO calm; INSERT INTO calm VALUES (1)', 'a trigger of audited'],
  ['DROP TRIGGER audit ON audited; INSERT INTO audited VALUES (1)', 'a trigger of audited'],
  [
    'CREATE TABLE a2 (id int); ALTER TABLE a2 INHERIT audited; CREATE TABLE a3 (id int); ALTER TABLE audited INHERIT a3; INSERT INTO a3 VALUES (1)',
    'a trigger of audited',
  ],
  [
    "CREATE TABLE p3 (id int); CREATE TRIGGER t AFTER INSERT ON p3 FOR EACH ROW EXECUTE FUNCTION exec_arg('x'); CREATE TABLE w (id int) PARTITION BY RANGE (id); ALTER TABLE w ATTACH PARTITION p3 DEFAULT; INSERT INTO w VALUES (1)",
    'exec_arg',
  ],
  [
    'CREATE FUNCTION g(a text DEFAULT exec($$x$$)::text) RETURNS text LANGUAGE sql AS $$ SELECT a $$; SELECT g()',
    'the function g()',
  ],
  [
    "CREATE OR REPLACE FUNCTION plain() RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SEL' || 'ECT 1'; RETURN 1; END $$; SELECT uses_plain()",
    'uses_plain()',
  ],
  [
    "CREATE FUNCTION a() RETURNS int LANGUAGE sql AS 'SELECT b()'; CREATE FUNCTION b() RETURNS int LANGUAGE sql AS $$ SELECT exec('x') $$; SELECT a()",
    'the function',
  ],
  ['CREATE FOREIGN DATA WRAPPER w VALIDATOR f OPTIONS (a $$b$$)', 'CREATE FOREIGN DATA WRAPPER'],
  ["LOAD '/tmp/evil.so'", 'LOAD'],
  ["CREATE FUNCTION ev() RETURNS void LANGUAGE c AS '/tmp/evil.so'", 'in the language c'],
  [
    "CREATE FUNCTION ev() RETURNS void LANGUAGE internal AS 'pg_reload_conf'; SELECT ev()",
    'the function ev()',
  ],
  ["CREATE FUNCTION ev() RETURNS void LANGUAGE plpython3u AS 'import os'", 'in the language plpython3u'],
  ["SET extension_control_path = '/tmp/x'", 'the setting extension_control_path'],
  ["SELECT set_config('dynamic_library' || '_path', '/tmp', false)", 'set_config()'],
  [
    "CREATE FUNCTION s() RETURNS void LANGUAGE sql SET plperl.on_init = 'x' AS ''",
    'the setting plperl.on_init',
  ],
  ['SET standard_conforming_strings = off', 'the setting standard_conforming_strings'],
  ['CREATE EXTENSION pg_prewarm', 'the extension pg_prewarm'],
  ['CREATE EXTENSION evilx', 'the extension evilx'],
  ["DO $$ BEGIN EXECUTE format('ALTER TABLE orders ADD COLUMN %I int', 'two'); END $$", 'a DO block'],
  ["DO $$ BEGIN EXECUTE 'SELECT exec(''x'')'; END $$", 'the function exec()'],
  ["DO $$ DECLARE d checked := 'x'; BEGIN END $$", 'checked'],
  ["DO $$ BEGIN COPY orders TO PROGRAM 'cat'; END $$", 'a DO block with COPY'],
  [
    "DO $$ BEGIN CREATE FUNCTION h() RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE 1 || 2; END'; PERFORM h(); END $$",
    'h()',
  ],
  ['DO LANGUAGE plperl $$ 1 $$', 'a DO block'],
  [
    "PREPARE p AS SELECT plain(); CREATE OR REPLACE FUNCTION plain() RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'x' || 'y'; END $$; EXECUTE p",
    'the function plain()',
  ],
  ['SELECT (o).exec FROM orders o', 'the function exec()'],
  // Any table may follow.
  ['TRUNCATE orders CASCADE', ''],
  ["SET client_encoding = 'SJIS'", 'the setting client_encoding'],
  ["SET client_encoding = 'LATIN1'; SELECT 'é'", 'a text with letters beyond ASCII'],
  [
    "SELECT set_config('client_encoding', 'latin1', false); SELECT 1 AS é",
    'a text with letters beyond ASCII',
  ],
  [
    "DO $$ BEGIN CREATE FUNCTION h() RETURNS void LANGUAGE sql AS $f$ SELECT exec('x') $f$; END $$",
    'the function h()',
  ],
  [
    "DO $$ BEGIN CREATE FUNCTION h() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN RETURN plain(); END $f$; END $$; CREATE OR REPLACE FUNCTION plain() RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SEL' || 'ECT 1'; RETURN 1; END $$; SELECT h()",
    'the function plain()',
  ],
  [
    'INSERT INTO audited VALUES (1)',
    'a trigger of audited, which runs the function exec_arg(), which executes texts that it puts together',
  ],
];

const UNKNOWN_WITH_INDEX = ['ANALYZE', 'VACUUM', 'CLUSTER', 'REINDEX SCHEMA public', 'ANALYZE indexed'];

const ELSEWHERE = [
  ["SELECT 1 FROM pg_database WHERE datname = 'x'", undefined],
  ['SELECT version(), current_database()', undefined],
  ['WITH x AS (SELECT 1) SELECT * FROM x', undefined],
  ['SELECT * FROM information_schema.tables', undefined],
  ['CREATE DATABASE x', undefined],
  ['TABLE osv', 'the relation osv'],
  ['SELECT * FROM ov', 'the relation ov'],
  ['SELECT 1 @@@@ 2', 'the operator @@@@'],
  ['PREPARE p AS SELECT 1 @@@@ 2', 'the operator @@@@'],
] as const;

describe.each(OLDEST_AND_NEWEST)('on PostgreSQL %d', (version) => {
  test('what is harmless is known to be, and nothing else', async () => {
    const { session, drop } = await scratch(version, TARGET);
    const withIndex = await scratch(version, WITH_INDEX);
    const judgeIn = async (session: Session, text: string) => {
      const { names } = await readUnknownCode(session);
      const bytes = Buffer.from(text);
      for (const { from, to, node } of (await parseText(bytes)) ?? []) {
        const added = names.takeAdded();
        if (added.length > 0) await findUsesOf(session, names, added);
        const unknown = await unknownInStatement(textOf(bytes, from, to), node, names);
        if (unknown !== undefined) return unknown;
      }
      return undefined;
    };
    const judge = (text: string) => judgeIn(session, text);
    try {
      for (const sql of UNKNOWN_WITH_INDEX)
        expect.soft(await judgeIn(withIndex.session, sql), sql).toMatch(/^the (?:table|type) indexed$/);
      for (const sql of HARMLESS) expect.soft(await judge(sql), sql).toBeUndefined();
      for (const [sql, what] of UNKNOWN)
        expect.soft(await judge(sql), sql).toEqual(expect.stringContaining(what));
      const { names } = await readUnknownCode(session);
      for (const [sql, what] of ELSEWHERE) {
        const [statement] = (await parseText(Buffer.from(sql))) ?? [];
        const unknown = unknownElsewhere(statement?.node ?? {}, names);
        expect.soft(unknown?.slice(0, what?.length), sql).toBe(what);
      }
    } finally {
      await drop();
      await withIndex.drop();
    }
  });
});
