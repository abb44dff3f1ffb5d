import { describe, expect, test } from 'vitest';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { catalogueDigest, compareDigests } from '../../../src/proof/catalogue-digest.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

const START = `
CREATE TABLE t (id integer PRIMARY KEY, v text, w integer);
INSERT INTO t SELECT i, i::text, i FROM generate_series(1, 1000) i;
CREATE TABLE parted (a integer) PARTITION BY RANGE (a);
CREATE TABLE part (a integer);
CREATE SEQUENCE s;
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TYPE pair AS (a integer, b text);
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE VIEW seen AS SELECT id FROM t;
CREATE MATERIALIZED VIEW kept AS SELECT id FROM t;
CREATE FUNCTION one() RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER fired BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fire();
CREATE FUNCTION announce() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE PUBLICATION pub;
CREATE SCHEMA other;
`;

const DDL = [
  'CREATE TABLE n (a integer)',
  'DROP TABLE part',
  'ALTER TABLE t RENAME TO u',
  'ALTER TABLE t SET SCHEMA other',
  'ALTER TABLE t ADD COLUMN x integer',
  'ALTER TABLE t DROP COLUMN v',
  'ALTER TABLE t RENAME COLUMN v TO x',
  'ALTER TABLE t ALTER COLUMN w TYPE bigint',
  'ALTER TABLE t ALTER COLUMN w SET NOT NULL',
  'ALTER TABLE t ALTER COLUMN w SET DEFAULT 1',
  'ALTER TABLE t ALTER COLUMN v SET STORAGE PLAIN',
  'ALTER TABLE t ALTER COLUMN v SET STATISTICS 10',
  'ALTER TABLE t ADD CONSTRAINT c CHECK (w > 0) NOT VALID',
  'ALTER TABLE t ADD UNIQUE (w)',
  'ALTER TABLE t ENABLE ROW LEVEL SECURITY',
  'ALTER TABLE t SET (fillfactor = 70)',
  'ALTER TABLE t SET UNLOGGED',
  'ALTER TABLE t REPLICA IDENTITY FULL',
  'ALTER TABLE t DISABLE TRIGGER ALL',
  'ALTER TABLE parted ATTACH PARTITION part FOR VALUES FROM (1) TO (2)',
  'CREATE INDEX i ON t (w)',
  'CREATE POLICY p ON t USING (true)',
  'CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION fire()',
  'CREATE RULE r AS ON DELETE TO t DO INSTEAD NOTHING',
  'CREATE STATISTICS st ON v, w FROM t',
  'CREATE OR REPLACE VIEW seen AS SELECT id, v FROM t',
  'DROP VIEW seen',
  'ALTER MATERIALIZED VIEW kept RENAME TO held',
  'REFRESH MATERIALIZED VIEW kept',
  "CREATE OR REPLACE FUNCTION one() RETURNS integer LANGUAGE sql AS 'SELECT 2'",
  'ALTER FUNCTION one() SECURITY DEFINER',
  'DROP FUNCTION one()',
  "CREATE PROCEDURE q() LANGUAGE sql AS 'SELECT 1'",
  'CREATE AGGREGATE total (integer) (SFUNC = int4pl, STYPE = integer)',
  "ALTER TYPE mood ADD VALUE 'calm'",
  "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",
  'ALTER TYPE pair ADD ATTRIBUTE c integer',
  'CREATE TYPE span AS RANGE (subtype = integer)',
  'ALTER DOMAIN positive SET NOT NULL',
  'CREATE SEQUENCE s2',
  'ALTER SEQUENCE s INCREMENT BY 2',
  'CREATE SCHEMA third',
  'ALTER SCHEMA other RENAME TO fourth',
  'GRANT SELECT ON t TO PUBLIC',
  'GRANT SELECT (v) ON t TO PUBLIC',
  'GRANT USAGE ON SCHEMA other TO PUBLIC',
  'REVOKE EXECUTE ON FUNCTION one() FROM PUBLIC',
  'ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC',
  "COMMENT ON TABLE t IS 'x'",
  "COMMENT ON COLUMN t.v IS 'x'",
  'CREATE CAST (mood AS pair) WITH INOUT',
  'CREATE OPERATOR === (LEFTARG = integer, RIGHTARG = integer, FUNCTION = int4eq)',
  'CREATE OPERATOR FAMILY fam USING btree',
  'CREATE TEXT SEARCH CONFIGURATION ts (COPY = simple)',
  'CREATE TEXT SEARCH DICTIONARY td (TEMPLATE = simple)',
  'CREATE COLLATION co FROM "C"',
  'CREATE FOREIGN DATA WRAPPER fdw',
  'ALTER PUBLICATION pub ADD TABLE t',
  'CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION announce()',
  'TRUNCATE t',
  'REINDEX TABLE t',
];

describe.each(VERSIONS)('on %d', (version) => {
  test('every kind of DDL moves the digest, and rolled back leaves it where it was', async () => {
    const { session, drop } = await scratch(version);
    try {
      await session.query(START);
      const before = await catalogueDigest(session);
      const unseen: string[] = [];
      for (const sql of DDL) {
        await session.query('BEGIN');
        await session.query(sql);
        if (compareDigests(before, await catalogueDigest(session)).length === 0) unseen.push(sql);
        await session.query('ROLLBACK');
      }
      expect(unseen).toEqual([]);
      expect(compareDigests(before, await catalogueDigest(session))).toEqual([]);
    } finally {
      await drop();
    }
  });

  test('rows, VACUUM, ANALYZE and temporary objects of another session do not move it', async () => {
    const { session, settings, drop } = await scratch(version);
    const other = await openSession(settings, { purpose: 'test' });
    try {
      await session.query(START);
      const before = await catalogueDigest(session);
      await other.query('DELETE FROM public.t WHERE id > 100');
      await other.query('VACUUM');
      await other.query('VACUUM (FREEZE)');
      await other.query('ANALYZE');
      await other.query("SELECT nextval('public.s')");
      await other.query(
        "CREATE TEMPORARY TABLE x (id serial PRIMARY KEY, v text DEFAULT 'x', CHECK (id > 0))",
      );
      await other.query("CREATE FUNCTION pg_temp.f() RETURNS integer LANGUAGE sql AS 'SELECT 1'");
      await other.query("CREATE TYPE pg_temp.m AS ENUM ('a')");
      await other.query("COMMENT ON TABLE pg_temp.x IS 'x'");
      expect(compareDigests(before, await catalogueDigest(session))).toEqual([]);
    } finally {
      await other.close();
      await drop();
    }
  });

  test('an ordinary role can take it, and it names what the role cannot see', async () => {
    const { session, settings, drop } = await scratch(version);
    const reader = `reader_${process.pid}`;
    try {
      await session.query(`CREATE ROLE ${reader} LOGIN PASSWORD 'reader'`);
      const other = await openSession({ ...settings, user: reader, password: 'reader' }, { purpose: 'test' });
      expect((await catalogueDigest(other)).unread).toEqual([]);
      await session.query(`CREATE FOREIGN DATA WRAPPER nowhere; CREATE SERVER far FOREIGN DATA WRAPPER nowhere;
        CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (password 'x')`);
      const digest = await catalogueDigest(other);
      await other.close();
      expect(digest.unread).toEqual([expect.stringContaining('user mappings')]);
    } finally {
      await session.query(`DROP ROLE IF EXISTS ${reader}`);
      await drop();
    }
  });
});
