import { describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { compareWith, fingerprint } from '../../../src/schema/compare-schemas.ts';
import type { Answers, Row } from '../../../src/schema/extraction.ts';
import { type Snapshot, takeSnapshot } from '../../../src/schema/schema-facts.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

/** Relations that refer to each other by name in every way that there is, and one that has to do with none. */
const SCHEMA = `
CREATE SCHEMA apart;
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TYPE pair AS (a integer, b text);
CREATE DOMAIN positive AS integer CONSTRAINT above_zero CHECK (VALUE > 0);
CREATE FUNCTION twice(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1';
CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE SEQUENCE counter;
CREATE TABLE customers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, mood mood DEFAULT 'sad', UNIQUE (name));
CREATE TABLE orders (id bigserial PRIMARY KEY, customer bigint REFERENCES customers, total positive, note varchar(50) COLLATE "C",
  code integer DEFAULT nextval('counter'), CONSTRAINT enough CHECK (twice(total) > 1));
CREATE TABLE items (id bigint, part integer, of bigint REFERENCES orders ON DELETE CASCADE, price numeric(10,2), pair pair,
  double numeric GENERATED ALWAYS AS (price * 2) STORED, PRIMARY KEY (id, part), EXCLUDE USING btree (of WITH =));
CREATE INDEX by_note ON orders (lower(note)) WHERE total > 1;
CREATE UNIQUE INDEX by_code ON orders (id, customer);
ALTER TABLE orders ALTER customer SET NOT NULL; ALTER TABLE orders REPLICA IDENTITY USING INDEX by_code;
CREATE VIEW big AS SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer;
CREATE VIEW bigger AS SELECT * FROM big;
CREATE MATERIALIZED VIEW sums AS SELECT customer, sum(total) AS total FROM orders GROUP BY customer;
CREATE INDEX sums_customer ON sums (customer);
CREATE TABLE holder (id integer, customer customers, many customers[], item items);
CREATE FUNCTION of_customer(customers) RETURNS SETOF orders LANGUAGE sql AS 'SELECT * FROM orders WHERE customer = $1.id';
CREATE TRIGGER fired BEFORE UPDATE OF note ON orders FOR EACH ROW WHEN (OLD.note IS DISTINCT FROM NEW.note) EXECUTE FUNCTION fire();
CREATE RULE none AS ON DELETE TO customers DO ALSO DELETE FROM orders WHERE customer = OLD.id;
CREATE POLICY own ON orders USING (customer IN (SELECT id FROM customers));
ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
CREATE TABLE events (at date NOT NULL, what text, PRIMARY KEY (at)) PARTITION BY RANGE (at);
CREATE TABLE events_2024 PARTITION OF events FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE events_2025 (at date NOT NULL PRIMARY KEY, what text);
CREATE INDEX events_what ON events (what);
CREATE TABLE parent (a integer, CHECK (a > 0));
CREATE TABLE child (b integer) INHERITS (parent);
CREATE STATISTICS st ON customer, total FROM orders;
CREATE TABLE alone (a integer, b text);
CREATE TABLE apart.orders (id bigint PRIMARY KEY);
CREATE FOREIGN DATA WRAPPER nowhere; CREATE SERVER far FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE abroad (id bigint, mood mood) SERVER far;
CREATE PUBLICATION told FOR TABLE alone;
GRANT SELECT ON orders TO PUBLIC; GRANT UPDATE (note) ON orders TO PUBLIC;
COMMENT ON TABLE orders IS 'x'; COMMENT ON COLUMN orders.note IS 'y'; COMMENT ON INDEX by_note IS 'z';
COMMENT ON CONSTRAINT enough ON orders IS 'w'; COMMENT ON VIEW big IS 'v'`;

/** Only what was touched needs to be read again. */
const SMALL = [
  'SELECT 1',
  'ALTER TABLE alone ADD c integer',
  'ALTER TABLE alone DROP b',
  'ALTER TABLE alone RENAME TO lonely',
  'ALTER TABLE alone SET SCHEMA apart',
  'DROP TABLE apart.orders',
  'DROP TABLE alone',
  'DROP TABLE alone; CREATE TABLE alone (a integer)',
  'DROP TABLE holder; DROP TABLE items',
  'DROP SEQUENCE counter CASCADE',
  'CREATE TABLE more (id bigserial PRIMARY KEY, of bigint REFERENCES customers, alone alone, mood mood)',
  'CREATE TABLE more (LIKE orders INCLUDING ALL)',
  'CREATE TABLE events_2026 PARTITION OF events FOR VALUES FROM ($$2026-01-01$$) TO ($$2027-01-01$$)',
  'ALTER TABLE events ATTACH PARTITION events_2025 FOR VALUES FROM ($$2025-01-01$$) TO ($$2026-01-01$$)',
  'ALTER TABLE events DETACH PARTITION events_2024',
  'ALTER TABLE events ADD c integer',
  'ALTER TABLE events RENAME TO happenings',
  'ALTER TABLE events RENAME what TO something',
  'ALTER TABLE events_2024 RENAME TO events_old',
  'ALTER INDEX events_what RENAME TO happened',
  'CREATE INDEX events_at ON events (at, what)',
  'DROP INDEX events_what',
  'ALTER TABLE customers RENAME TO people',
  'ALTER TABLE customers RENAME id TO number',
  'ALTER TABLE customers SET SCHEMA apart',
  'ALTER TABLE customers RENAME CONSTRAINT customers_name_key TO one_name',
  'ALTER TABLE customers ALTER mood DROP DEFAULT',
  'ALTER TABLE customers ALTER id DROP IDENTITY',
  'ALTER TABLE customers ALTER id SET INCREMENT 3',
  'ALTER SEQUENCE customers_id_seq RENAME TO numbers',
  'ALTER TABLE orders RENAME TO purchases',
  'ALTER TABLE orders RENAME customer TO buyer',
  'ALTER TABLE orders RENAME note TO remark',
  'DROP TRIGGER fired ON orders; ALTER TABLE orders ALTER note TYPE text',
  'ALTER TABLE orders ALTER code TYPE numeric',
  'ALTER TABLE orders ALTER note SET NOT NULL',
  'ALTER TABLE orders ALTER note SET STATISTICS 7',
  'ALTER TABLE orders ALTER note SET STORAGE PLAIN',
  'ALTER TABLE orders SET (fillfactor = 70)',
  'ALTER TABLE orders DISABLE ROW LEVEL SECURITY',
  'ALTER TABLE orders REPLICA IDENTITY FULL',
  'ALTER TABLE orders CLUSTER ON by_code',
  'ALTER TABLE orders DISABLE TRIGGER fired',
  'ALTER TABLE orders DROP CONSTRAINT enough',
  'ALTER TABLE orders DROP CONSTRAINT orders_customer_fkey',
  'ALTER TABLE orders ADD CONSTRAINT n CHECK (note <> $$$$) NOT VALID',
  'ALTER TABLE orders ADD UNIQUE (code)',
  'ALTER TABLE orders DROP CONSTRAINT orders_pkey CASCADE; ALTER TABLE orders ADD PRIMARY KEY (id, customer)',
  'ALTER INDEX orders_pkey RENAME TO key_of_orders',
  'ALTER INDEX by_code RENAME TO coded',
  'ALTER INDEX by_note SET (fillfactor = 50)',
  'DROP INDEX by_note',
  'CREATE INDEX more ON orders (total)',
  'COMMENT ON INDEX by_note IS NULL',
  'COMMENT ON TABLE orders IS NULL',
  'COMMENT ON COLUMN items.price IS $$new$$',
  'COMMENT ON VIEW big IS $$new$$',
  'GRANT INSERT ON orders TO PUBLIC',
  'REVOKE UPDATE (note) ON orders FROM PUBLIC',
  'GRANT SELECT (ctid) ON alone TO PUBLIC',
  'ALTER TRIGGER fired ON orders RENAME TO on_fire',
  'DROP TRIGGER fired ON orders',
  'CREATE ROLE again_new; GRANT SELECT ON alone TO again_new',
  'CREATE TRIGGER again AFTER INSERT ON alone FOR EACH ROW EXECUTE FUNCTION fire()',
  'DROP RULE none ON customers',
  'ALTER POLICY own ON orders USING (true)',
  'DROP POLICY own ON orders',
  'CREATE OR REPLACE VIEW big AS SELECT o.id, c.name, o.total FROM orders o JOIN customers c ON c.id = o.customer',
  'DROP VIEW bigger; DROP VIEW big; CREATE VIEW big AS SELECT 1 AS one',
  'ALTER VIEW big RENAME TO large',
  'ALTER VIEW big RENAME name TO who',
  'ALTER MATERIALIZED VIEW sums RENAME TO totals',
  'REFRESH MATERIALIZED VIEW sums',
  'ALTER SEQUENCE counter INCREMENT 2',
  'ALTER SEQUENCE counter RENAME TO ticker',
  'ALTER SEQUENCE counter OWNED BY orders.code',
  'ALTER SEQUENCE orders_id_seq OWNED BY NONE',
  'ALTER SEQUENCE orders_id_seq AS integer',
  'CREATE SEQUENCE another OWNED BY alone.a',
  'ALTER TABLE parent RENAME a TO z',
  'ALTER TABLE parent RENAME TO forebear',
  'ALTER TABLE parent ADD c integer',
  'ALTER TABLE child NO INHERIT parent',
  'ALTER TABLE holder DROP item',
  'ALTER FOREIGN TABLE abroad ADD note text',
  'ALTER FOREIGN TABLE abroad RENAME TO overseas',
  'DROP FOREIGN TABLE abroad',
  'TRUNCATE alone',
  'REINDEX TABLE orders',
  'CREATE TYPE colour AS ENUM ($$red$$); ALTER TABLE alone ADD c colour',
  'CREATE TYPE triple AS (a integer, b integer, c alone); ALTER TABLE holder ADD c triple',
  'CREATE DOMAIN small AS integer; ALTER TABLE apart.orders ADD c small',
  'CREATE FUNCTION thrice(orders) RETURNS integer LANGUAGE sql AS $$SELECT 3$$',
  'CREATE FUNCTION alone(integer) RETURNS integer LANGUAGE sql AS $$SELECT 3$$; CREATE VIEW w AS SELECT alone(1)',
  'CREATE SCHEMA third; CREATE TABLE third.orders (id integer)',
  'CREATE STATISTICS another ON id, total FROM orders',
  'CREATE PUBLICATION all_of_it FOR TABLE orders',
  'COMMENT ON CONSTRAINT enough ON orders IS $$new$$',
  'COMMENT ON TRIGGER fired ON orders IS $$new$$',
  'ALTER SERVER far RENAME TO away',
  'ALTER PUBLICATION told ADD TABLE orders',
  'DROP SERVER far CASCADE',
  'COMMENT ON POLICY own ON orders IS $$new$$',
  'COMMENT ON RULE none ON customers IS $$new$$',
  'COMMENT ON FUNCTION fire() IS $$new$$',
  'COMMENT ON TYPE mood IS $$new$$',
  'ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC',
] as const;

/** Something that any relation may refer to: everything is read. */
const LARGE = [
  'ALTER ROLE again_reader RENAME TO again_viewer',
  'ALTER TYPE mood RENAME TO feeling',
  'ALTER TYPE mood RENAME VALUE $$sad$$ TO $$blue$$',
  'ALTER TYPE pair RENAME TO couple',
  'ALTER TYPE pair ADD ATTRIBUTE c integer',
  'ALTER TABLE items DROP pair; DROP TYPE pair',
  'ALTER DOMAIN positive RENAME TO above',
  'ALTER DOMAIN positive DROP CONSTRAINT above_zero',
  'ALTER FUNCTION twice(integer) RENAME TO doubled',
  'ALTER FUNCTION fire() SET SCHEMA apart',
  'DROP FUNCTION of_customer(customers)',
  'DROP TABLE orders CASCADE',
  'DROP TABLE customers CASCADE',
  'ALTER SCHEMA apart RENAME TO aside',
  'ALTER SCHEMA public RENAME TO private',
  'DROP SCHEMA apart CASCADE',
  'GRANT SELECT ON pg_catalog.pg_class TO PUBLIC',
] as const;

/** All of them take half a minute. */
const versionsShare = (version: ServerVersion) =>
  [...SMALL, ...LARGE].filter((_, index) => version === 18 || index % 4 === version % 4);

describe.each(VERSIONS)('on %d', (version) => {
  test('reading again what was touched tells the same as reading everything', async () => {
    const { session, drop } = await scratch(version, SCHEMA);
    try {
      // In a transaction that never ends, so that nobody else on the server sees the role.
      await session.query('BEGIN ISOLATION LEVEL REPEATABLE READ; CREATE ROLE again_reader');
      await session.query('GRANT SELECT ON customers TO again_reader');
      const before = await takeSnapshot(inside(session), { many: 0 });
      const [wrongly, needlessly]: string[][] = [[], []];
      for (const change of versionsShare(version)) {
        await session.query('SAVEPOINT change; SET LOCAL search_path = public');
        await session.query(change);
        const whole = await takeSnapshot(inside(session));
        const again = await takeSnapshot(inside(session), { since: before });
        await session.query('ROLLBACK TO SAVEPOINT change');
        expect(sorted(again.answers), change).toEqual(sorted(whole.answers));
        expect(byKey(again), change).toEqual(byKey(whole));
        expect(again.unmodeled, change).toEqual(whole.unmodeled);
        const isSmall = (SMALL as readonly string[]).includes(change);
        if (isSmall !== shares(before.answers, again.answers)) (isSmall ? needlessly : wrongly)?.push(change);
      }
      expect({ wrongly, needlessly }).toEqual({ wrongly: [], needlessly: [] });
    } finally {
      await session.query('ROLLBACK');
      await drop();
    }
  }, 300_000);

  test('of many relations the touched ones alone are read again, renames and the way back included', async () => {
    const { session, drop } = await scratch(version);
    try {
      const tables = Array.from(
        { length: 260 },
        (_, n) =>
          `CREATE TABLE t${n} (id bigint PRIMARY KEY, of bigint${n === 0 ? '' : ` REFERENCES t${n - 1}`})`,
      );
      await session.query(tables.join(';'));
      const before = await takeSnapshot(session);
      await session.query(`ALTER TABLE t7 ADD COLUMN x integer; ALTER TABLE t8 RENAME TO u8; ALTER TABLE t20 DROP CONSTRAINT t20_of_fkey;
        DROP TABLE t259; CREATE TABLE made (id bigint REFERENCES t10); ALTER TABLE t30 RENAME COLUMN of TO parent`);
      const asked: string[] = [];
      const { section, caveats } = await compareWith(before, listening(session, asked));
      expect(caveats).toEqual([]);
      expect(section.changes.map(({ verb, kind, object }) => `${verb} ${kind} ${object}`).sort()).toEqual([
        'create column public.t7.x',
        'create constraint public.made.made_id_fkey',
        'create table public.made',
        'drop constraint public.t20.t20_of_fkey',
        'drop constraint public.t259.t259_of_fkey',
        'drop table public.t259',
        'rename column public.t30.parent',
        'rename table public.u8',
      ]);
      expect(asked.filter((sql) => sql.includes('= any ('))).not.toEqual([]);
      await session.query(section.rollbackSql ?? '');
      expect(await fingerprint(await takeSnapshot(session))).toBe(section.before);
      expect(await fingerprint(before)).toBe(section.before);
    } finally {
      await drop();
    }
  });
});

/** The session, and what is asked in it. */
function listening(session: Session, asked: string[]): Session {
  return new Proxy(session, {
    get: (of, name) => {
      const value = Reflect.get(of, name, of);
      if (typeof value !== 'function') return value;
      return (first: unknown, ...others: unknown[]) => {
        asked.push([first].flat().join('\n'));
        return value.call(of, first, ...others);
      };
    },
  });
}

/** The session, for what has a transaction of its own, in the transaction that is under way. */
function inside(session: Session): Session {
  return new Proxy(session, {
    get(of, name) {
      if (name === 'query')
        return async (sql: string, values?: readonly unknown[]) =>
          /^ROLLBACK$/.test(sql) ? [] : await of.query(sql, values);
      if (name === 'queryAll')
        return (statements: readonly string[]) =>
          of.queryAll(statements.filter((sql) => !/^BEGIN/.test(sql)));
      const value = Reflect.get(of, name, of);
      return typeof value === 'function' ? value.bind(of) : value;
    },
  });
}

const sorted = (answers: Answers) =>
  new Map([...answers].map(([sql, { rows }]) => [sql, rows.map((row) => JSON.stringify(row)).sort()]));
const byKey = ({ identity }: Snapshot) => [...identity].sort(([a], [b]) => (a < b ? -1 : 1));

/** There are rows in one that were taken from the other. */
function shares(one: Answers, other: Answers): boolean {
  const rows = new Set<Row>([...one.values()].flatMap((answer) => answer.rows));
  return [...other.values()].some((answer) => answer.rows.some((row) => rows.has(row)));
}
