import { describe, expect, test } from 'vitest';
import { changesBetween, compareWith, fingerprint } from '../../../src/schema/compare-schemas.ts';
import { readIdentity } from '../../../src/schema/identity.ts';
import { takeSnapshot } from '../../../src/schema/schema-facts.ts';
import { scratch } from '../../helpers/scratch.ts';
import { OLDEST_AND_NEWEST, shareOf, VERSIONS } from '../../helpers/servers.ts';

const START = `
CREATE SCHEMA sales;
CREATE TYPE public.mood AS ENUM ('sad', 'glad');
CREATE DOMAIN public.positive AS integer CONSTRAINT above_zero CHECK (VALUE > 0);
CREATE TYPE public.pair AS (a integer, b text);
CREATE TABLE public.customers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, mood public.mood);
CREATE TABLE public.orders (id bigserial PRIMARY KEY, customer bigint REFERENCES public.customers, total numeric(10,2) DEFAULT 0,
  note varchar(50), CONSTRAINT total_positive CHECK (total >= 0));
CREATE INDEX orders_customer ON public.orders (customer);
CREATE VIEW public.big AS SELECT o.id, c.name FROM public.orders o JOIN public.customers c ON c.id = o.customer WHERE o.total > 100;
CREATE MATERIALIZED VIEW public.sums AS SELECT customer, sum(total) AS total FROM public.orders GROUP BY customer;
CREATE FUNCTION public.touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER touched BEFORE UPDATE ON public.orders FOR EACH ROW EXECUTE FUNCTION public.touch();
ALTER TABLE public.customers ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON public.customers USING (true);
CREATE TABLE public.events (at date NOT NULL, what text) PARTITION BY RANGE (at);
CREATE TABLE public.events_2024 PARTITION OF public.events FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE public.events_2025 (at date NOT NULL, what text);
CREATE SEQUENCE public.counter;
CREATE TABLE public.bookings (id integer PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE public.bookings_1 PARTITION OF public.bookings FOR VALUES FROM (0) TO (10);
CREATE TABLE public.guests (booking integer REFERENCES public.bookings);
CREATE TABLE public.moods (m public.mood NOT NULL DEFAULT 'sad');
CREATE TABLE public.family (id int); CREATE TABLE public.heir () INHERITS (public.family); CREATE PUBLICATION told FOR TABLE ONLY public.family;
CREATE TABLE public.sums_made (a int, b int GENERATED ALWAYS AS (a * 2) STORED);
INSERT INTO public.customers (name, mood) VALUES ('a', 'sad'), ('b', 'glad');
INSERT INTO public.orders (customer, total, note) VALUES (1, 10, 'x'), (2, 200, 'y');
`;

const MIGRATIONS: Record<string, string> = {
  'adds a column with a default': 'ALTER TABLE orders ADD COLUMN paid boolean NOT NULL DEFAULT false',
  'renames a table with a secondary index': 'ALTER TABLE orders RENAME TO purchases',
  'renames a column': 'ALTER TABLE orders RENAME COLUMN total TO amount',
  'renames table, column, index and constraint at once': `ALTER TABLE orders RENAME TO purchases;
    ALTER TABLE purchases RENAME COLUMN customer TO buyer; ALTER INDEX orders_customer RENAME TO purchases_buyer;
    ALTER TABLE purchases RENAME CONSTRAINT orders_pkey TO purchases_pkey`,
  'renames and changes':
    'ALTER TABLE customers RENAME TO people; ALTER TABLE people ADD COLUMN age integer; ALTER TABLE people DROP COLUMN mood',
  'swaps two columns':
    'ALTER TABLE customers RENAME COLUMN name TO t; ALTER TABLE customers RENAME COLUMN mood TO name; ALTER TABLE customers RENAME COLUMN t TO mood',
  'puts a new table in the place of a renamed one': `ALTER TABLE orders RENAME TO orders_old; ALTER TABLE orders_old RENAME CONSTRAINT orders_pkey TO orders_old_pkey;
    CREATE TABLE orders (id bigint, CONSTRAINT orders_pkey PRIMARY KEY (id)); INSERT INTO orders SELECT id FROM orders_old`,
  'renames a schema and moves a table':
    'ALTER SCHEMA sales RENAME TO shop; ALTER TABLE orders SET SCHEMA shop',
  'moves and renames': 'ALTER TABLE orders SET SCHEMA sales; ALTER TABLE sales.orders RENAME TO o',
  'renames types, values, attributes and domains': `ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'; ALTER TYPE mood RENAME TO feeling;
    ALTER TYPE pair RENAME ATTRIBUTE a TO x; ALTER TYPE pair RENAME TO couple; ALTER DOMAIN positive RENAME CONSTRAINT above_zero TO gt0; ALTER DOMAIN positive RENAME TO natural_number`,
  'renames function, trigger, policy, view, sequence, materialized view': `ALTER FUNCTION touch() RENAME TO touched;
    ALTER TRIGGER touched ON orders RENAME TO on_touch; ALTER POLICY everybody ON customers RENAME TO everyone; ALTER VIEW big RENAME TO large;
    ALTER SEQUENCE orders_id_seq RENAME TO o_seq; ALTER SEQUENCE counter RENAME TO ticker; ALTER MATERIALIZED VIEW sums RENAME TO totals; ALTER VIEW large RENAME COLUMN name TO who`,
  'attaches a partition': `ALTER TABLE events ATTACH PARTITION events_2025 FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')`,
  'adds partitions to a table that is referred to': `CREATE TABLE bookings_2 PARTITION OF bookings FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
    CREATE TABLE bookings_2a PARTITION OF bookings_2 FOR VALUES FROM (10) TO (15)`,
  'detaches a partition': 'ALTER TABLE events DETACH PARTITION events_2024',
  'renames a column of a partitioned table': 'ALTER TABLE events RENAME COLUMN what TO something',
  'changes types':
    'ALTER TABLE orders ALTER COLUMN note TYPE text; DROP MATERIALIZED VIEW sums; DROP VIEW big; ALTER TABLE orders ALTER COLUMN total TYPE integer',
  'drops a table and a view': 'DROP VIEW big; DROP MATERIALIZED VIEW sums; DROP TABLE orders',
  'drops a column and adds it again': `ALTER TABLE orders DROP COLUMN note; ALTER TABLE orders ADD COLUMN note varchar(50)`,
  'adds indexes, constraints, comments and grants': `CREATE UNIQUE INDEX names ON customers (name); ALTER TABLE orders ADD CONSTRAINT n CHECK (note <> '') NOT VALID;
    COMMENT ON TABLE orders IS 'hello'; GRANT SELECT ON orders TO PUBLIC; ALTER TABLE orders ALTER COLUMN note SET NOT NULL`,
  'adds an enum value': `ALTER TYPE mood ADD VALUE 'calm'`,
  'replaces a function and a view': `CREATE OR REPLACE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.note := 1; RETURN NEW; END';
    CREATE OR REPLACE VIEW big AS SELECT o.id, c.name, o.total FROM orders o JOIN customers c ON c.id = o.customer WHERE o.total > 10`,
  'makes text of an enum with a default': `ALTER TABLE moods ALTER m DROP DEFAULT; ALTER TABLE moods ALTER m TYPE text;
    ALTER TABLE moods ALTER m SET DEFAULT 'sad'; ALTER TABLE customers ALTER mood TYPE text; DROP TYPE mood`,
  'takes a table with an heir out of a publication': 'ALTER PUBLICATION told DROP TABLE ONLY family',
  'drops a publication of a table with an heir': 'DROP PUBLICATION told',
  'changes the collation of a column': 'ALTER TABLE orders ALTER COLUMN note TYPE varchar(50) COLLATE "C"',
  'makes a primary key anew':
    'ALTER TABLE orders DROP CONSTRAINT orders_pkey; ALTER TABLE orders ADD PRIMARY KEY (id, customer)',
  'replaces an enum by a new type of the same name': `ALTER TYPE mood RENAME TO mood_old; CREATE TYPE mood AS ENUM ('sad', 'glad', 'calm');
    ALTER TABLE customers ALTER COLUMN mood TYPE mood USING mood::text::mood`,
  'renames a table that others refer to, and its foreign key': `ALTER TABLE customers RENAME TO people; ALTER TABLE orders RENAME COLUMN customer TO person;
    ALTER TABLE orders RENAME CONSTRAINT orders_customer_fkey TO orders_person_fkey; ALTER TABLE orders ADD COLUMN helper bigint REFERENCES people`,
  'attaches a partition and renames its parent': `ALTER TABLE events ATTACH PARTITION events_2025 FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
    ALTER TABLE events RENAME TO happenings; ALTER TABLE happenings RENAME COLUMN what TO something; ALTER TABLE events_2025 RENAME TO happenings_2025`,
  'changes, renames, drops and creates tables at once': `ALTER TABLE orders RENAME TO purchases; ALTER TABLE customers ADD COLUMN age integer;
    DROP TABLE events_2025; ALTER TABLE guests RENAME COLUMN booking TO of; CREATE TABLE made (id bigint REFERENCES customers)`,
  'rewrites a table by copying': `CREATE TABLE n (LIKE customers INCLUDING ALL); INSERT INTO n OVERRIDING SYSTEM VALUE SELECT * FROM customers; ALTER TABLE orders DROP CONSTRAINT orders_customer_fkey;
   DROP VIEW big; DROP TABLE customers; ALTER TABLE n RENAME TO customers`,
};

describe.each(VERSIONS)('on %d', (version) => {
  test.each(shareOf(version, Object.keys(MIGRATIONS)))(
    'the rollback SQL of a migration that %s restores the schema',
    async (name) => {
      const { session, drop } = await scratch(version);
      try {
        await session.query(START);
        const before = await takeSnapshot(session);
        const kept = new Set(
          [...before.identity.values()]
            .filter(
              (o) =>
                ['table', 'sequence'].includes(o.kind) ||
                (o.kind === 'column' && before.identity.get(o.within ?? '')?.kind === 'table'),
            )
            .map((o) => o.key),
        );
        await session.query(MIGRATIONS[name] ?? '');
        const after = await readIdentity(session);
        const stayed = [...kept].filter((key) => after.has(key));
        const { section, caveats } = await compareWith(before, session);
        // Taking the renames back was rolled back.
        expect(await readIdentity(session)).toEqual(after);
        expect(caveats).toEqual([]);
        await session.query(section.rollbackSql ?? '');
        const restored = await takeSnapshot(session);
        expect(stayed.filter((key) => !restored.identity.has(key))).toEqual([]);
        expect(changesBetween(before, restored)).toEqual([]);
        expect(fingerprint(restored)).toBe(section.before);
      } finally {
        await drop();
      }
    },
  );
});

describe.each(OLDEST_AND_NEWEST)('on %d, without everything', (version) => {
  test.each([
    {
      migration: `ALTER TABLE sums_made ALTER b DROP EXPRESSION; ALTER TABLE orders ADD x int`,
      sql: 'ALTER TABLE "public"."orders" DROP COLUMN "x";\n',
      lost: ['column public.sums_made.b: changed in place by a statement that has no opposite'],
    },
    {
      migration: `CREATE TABLE base (id bigint); ALTER TABLE orders INHERIT base; ALTER TABLE customers ADD x int`,
      sql: 'ALTER TABLE "public"."customers" DROP COLUMN "x";\n',
      lost: ['table public.orders: changed in place by a statement that has no opposite'],
    },
    {
      migration: `ALTER TABLE orders DROP CONSTRAINT orders_customer_fkey; TRUNCATE customers`,
      sql: `ALTER TABLE "public"."orders" ADD CONSTRAINT "orders_customer_fkey" FOREIGN KEY (customer) REFERENCES public.customers(id) NOT VALID;\n`,
      lost: [
        'the check of the rows by public.orders.orders_customer_fkey: the rows that they refer to are gone, so it is added NOT VALID',
      ],
    },
    {
      migration: `DROP VIEW big; ALTER TABLE customers DROP COLUMN name`,
      sql: expect.stringContaining('ADD COLUMN "name" text;'),
      lost: [
        'NOT NULL of public.customers.name: its values are gone, so it can only be set once the column is filled',
        'the values of public.customers.name',
      ],
    },
    {
      migration: 'DROP SEQUENCE counter',
      sql: expect.stringContaining('CREATE SEQUENCE "public"."counter"'),
      lost: ['the value of sequence public.counter'],
    },
  ])(
    'the rollback SQL of $migration runs, and what it leaves out is named',
    async ({ migration, sql, lost }) => {
      const { session, drop } = await scratch(version);
      try {
        await session.query(START);
        const before = await takeSnapshot(session);
        await session.query(migration);
        const { section } = await compareWith(before, session);
        expect(section.rollbackSql).toEqual(sql);
        expect(section.rollbackLoses).toEqual(lost);
        await session.query(section.rollbackSql ?? '');
      } finally {
        await drop();
      }
    },
  );

  test('the rollback SQL for empty tables restores NOT NULL and foreign keys as they were', async () => {
    const { session, drop } = await scratch(version);
    try {
      await session.query(`${START}; DELETE FROM orders; DELETE FROM customers`);
      const before = await takeSnapshot(session);
      await session.query(
        'DROP VIEW big; ALTER TABLE customers DROP COLUMN name; ALTER TABLE orders DROP CONSTRAINT orders_customer_fkey',
      );
      const { section } = await compareWith(before, session);
      await session.query(section.rollbackSql ?? '');
      expect(fingerprint(await takeSnapshot(session))).toBe(section.before);
    } finally {
      await drop();
    }
  });
});
