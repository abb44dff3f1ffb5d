import { beforeAll, describe, expect, test } from 'vitest';
import type { Hazard, Report } from '../../../src/model/report.ts';
import { rehearseInSchemas, schemaOf, statementsOf } from '../../helpers/hazard-examples.ts';
import { useOwnServers } from '../../helpers/servers.ts';

/**
 * Examples of which wrong things were reported once, or nothing. All are sessions of one command, each in a schema of its own, and all
 * schemas have tables of the same names.
 */
const SETUP = `
  CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL);
  CREATE TABLE orders (id int PRIMARY KEY, customer int, status text DEFAULT 'new', sales_channel text);
  CREATE TABLE auto_sales_channels (id int PRIMARY KEY, sales_channel text);
  INSERT INTO customers SELECT n, 'c' FROM generate_series(1, 2000) n;
  INSERT INTO orders SELECT n, n, 'new', 'web' FROM generate_series(1, 2000) n;
  CREATE INDEX orders_customer ON orders (customer);
  CREATE VIEW recent AS SELECT id FROM orders;
  CREATE SEQUENCE numbers;
  CREATE TYPE mood AS ENUM ('sad');
  CREATE FUNCTION tax(amount int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT amount';
  CREATE FUNCTION checked() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
  CREATE TRIGGER checks BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION checked();
  CREATE MATERIALIZED VIEW totals AS SELECT id FROM orders; CREATE UNIQUE INDEX totals_id ON totals (id);
  CREATE TABLE days (day int) PARTITION BY LIST (day); CREATE TABLE day1 PARTITION OF days FOR VALUES IN (1);
  CREATE TABLE schema_migrations (version bigint PRIMARY KEY, dirty boolean); INSERT INTO schema_migrations VALUES (1, false);
  CREATE FUNCTION fill() RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE orders SET status = ''x''; RETURN 1; END';
  CREATE PROCEDURE fill_all() LANGUAGE plpgsql AS 'BEGIN UPDATE orders SET status = ''x''; END';
  CREATE PROCEDURE fill_parts() LANGUAGE plpgsql AS '
    BEGIN FOR part IN 0..9 LOOP UPDATE orders SET status = ''x'' WHERE id / 201 = part; COMMIT; END LOOP; END';
  CREATE TABLE items (id int PRIMARY KEY, customer int CONSTRAINT items_customer REFERENCES customers DEFERRABLE INITIALLY DEFERRED);
  CREATE INDEX items_of_customer ON items (customer); INSERT INTO items SELECT n, 1 + n % 2000 FROM generate_series(1, 12000) n;
  CREATE TABLE tool_lock (is_locked int); INSERT INTO tool_lock VALUES (0);
  ANALYZE customers, orders, items;`;

interface Example {
  readonly what: string;
  /** Tables of its own. */
  readonly setup?: string;
  readonly sql: string;
  /** Codes that are told. */
  readonly told?: readonly string[];
  /** The told codes are warnings or errors. */
  readonly grave?: true;
  /** Codes that are not; of warnings and errors. */
  readonly silent?: readonly string[];
  /** Codes that are not told at all. */
  readonly never?: readonly string[];
  /** The relation of the first told code, without its schema. */
  readonly relation?: string;
  /** What the statement of the first told code begins with; missing: none is known to be the cause. */
  readonly statement?: string;
  /** What its message says. */
  readonly says?: RegExp;
}

/** What changes all rows of orders, its text, and what that begins with. */
const BY_CODE: readonly (readonly [what: string, sql: string, begin?: string])[] = [
  ['a DO block', "DO $$ BEGIN UPDATE orders SET status = 'x'; END $$"],
  [
    'a loop of a DO block',
    'DO $$ BEGIN FOR n IN 1..2000 LOOP DELETE FROM orders WHERE id = n; END LOOP; END $$',
  ],
  ['a function', 'SELECT fill()'],
  ['a procedure', 'CALL fill_all()'],
  ['a CTE', "WITH x AS (UPDATE orders SET status = 'x' RETURNING 1) SELECT count(*) FROM x"],
  [
    'the CTE of an INSERT',
    'WITH gone AS (DELETE FROM orders RETURNING id) INSERT INTO auto_sales_channels SELECT id FROM gone',
  ],
  ['an upsert', "INSERT INTO orders SELECT id, 1 FROM orders ON CONFLICT (id) DO UPDATE SET status = 'x'"],
  [
    'the second of two DO blocks in one transaction',
    "BEGIN; DO $$ BEGIN PERFORM 1 FROM orders FOR UPDATE; END $$; DO $$ BEGIN UPDATE orders SET status = 'x'; END $$; COMMIT",
    'DO $$ BEGIN UPDATE',
  ],
];

/** Changes after which code fails, or rows are wrong, although every statement succeeds. */
const WEAKENED: readonly Example[] = [
  {
    what: 'a foreign key that is no longer deferrable',
    sql: 'ALTER TABLE items ALTER CONSTRAINT items_customer NOT DEFERRABLE',
    told: ['CONSTRAINT_CHANGED'],
    never: ['ENFORCED_SCANS_TABLE'],
  },
  {
    what: 'a foreign key that is no longer enforced',
    sql: 'ALTER TABLE items ALTER CONSTRAINT items_customer NOT ENFORCED',
    told: ['CONSTRAINT_CHANGED'],
  },
  {
    what: 'a CHECK NOT VALID that rows violate',
    sql: 'ALTER TABLE orders ADD CONSTRAINT later CHECK (id > 1000) NOT VALID',
    told: ['CONSTRAINT_LEFT_NOT_VALID'],
    says: /rows violate it/,
    statement: 'ALTER TABLE',
  },
  {
    what: 'a foreign key NOT VALID that rows violate',
    sql: 'ALTER TABLE items ADD CONSTRAINT to_order FOREIGN KEY (id) REFERENCES orders NOT VALID',
    told: ['CONSTRAINT_LEFT_NOT_VALID'],
    says: /rows violate it/,
    statement: 'ALTER TABLE',
  },
  {
    what: 'row security without a policy',
    sql: 'ALTER TABLE orders ENABLE ROW LEVEL SECURITY',
    told: ['POLICY_CHANGED'],
    statement: 'ALTER TABLE',
  },
];

const PLACES = `CREATE TABLE places (id int PRIMARY KEY, postcode text, number text);
  INSERT INTO places SELECT n, lpad(n::text, 5, '0'), n FROM generate_series(1, 2000) n`;

const ROLES = `CREATE TABLE people (id int PRIMARY KEY, role text);
  INSERT INTO people SELECT n, (ARRAY['member', 'owner', 'Admin', 'admin'])[1 + n % 4] FROM generate_series(1, 2000) n;
  CREATE TYPE role AS ENUM ('member', 'owner', 'admin')`;

const EXAMPLES: readonly Example[] = [
  {
    what: 'a foreign key NOT VALID that is validated in the same transaction',
    sql: 'BEGIN; ALTER TABLE orders ADD CONSTRAINT fk FOREIGN KEY (customer) REFERENCES customers NOT VALID; ALTER TABLE orders VALIDATE CONSTRAINT fk; COMMIT',
    told: ['FOREIGN_KEY_VALIDATED_AT_ONCE'],
    statement: 'ALTER TABLE orders VALIDATE',
  },
  { what: 'a dropped view', sql: 'DROP VIEW recent', told: ['OBJECT_DROPPED'], statement: 'DROP VIEW' },
  {
    what: 'a dropped function',
    sql: 'DROP FUNCTION tax',
    told: ['OBJECT_DROPPED'],
    statement: 'DROP FUNCTION',
  },
  {
    what: 'a dropped sequence',
    sql: 'DROP SEQUENCE numbers',
    told: ['OBJECT_DROPPED'],
    statement: 'DROP SEQUENCE',
  },
  {
    what: 'a dropped extension',
    sql: 'DROP EXTENSION hstore',
    told: ['OBJECT_DROPPED'],
    statement: 'DROP EXTENSION',
  },
  {
    what: 'a trigger that takes the place of another one of its name',
    sql: 'DROP TRIGGER checks ON orders; CREATE TRIGGER checks BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION checked()',
    silent: ['TRIGGER_ADDED', 'TRIGGER_OFF'],
  },
  {
    what: 'a renamed type',
    sql: 'ALTER TYPE mood RENAME TO feeling',
    told: ['OBJECT_RENAMED'],
    statement: 'ALTER TYPE',
  },
  {
    what: 'a function that CASCADE drops with its triggers, and that is made again',
    sql: `DROP FUNCTION checked() CASCADE;
      CREATE FUNCTION checked() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`,
    told: ['CASCADE'],
    grave: true,
    statement: 'DROP FUNCTION',
  },
  {
    what: 'a number that keeps fewer digits',
    setup: 'CREATE TABLE rates (rate numeric(18, 8)); INSERT INTO rates VALUES (1.5)',
    sql: 'ALTER TABLE rates ALTER rate TYPE real',
    told: ['COLUMN_RETYPED'],
    says: /numeric\(18,8\) before; real keeps only 6 digits of a value/,
  },
  {
    what: 'a number whose digits all fit',
    setup: 'CREATE TABLE rates (rate numeric(6, 2)); INSERT INTO rates VALUES (1.5)',
    sql: 'ALTER TABLE rates ALTER rate TYPE real',
    told: ['COLUMN_RETYPED'],
    says: /becomes real$/,
  },
  {
    what: 'a function of a policy that becomes IMMUTABLE, although it asks for the session',
    setup: `CREATE FUNCTION session_status() RETURNS text LANGUAGE sql STABLE AS 'SELECT current_setting(''app.status'')';
      CREATE POLICY mine ON orders USING (status = session_status())`,
    sql: 'ALTER FUNCTION session_status() IMMUTABLE',
    told: ['FUNCTION_CHANGED'],
    grave: true,
    statement: 'ALTER FUNCTION',
  },
  {
    what: 'a function of a policy that becomes IMMUTABLE, and asks for nothing',
    setup: `CREATE FUNCTION first_status() RETURNS text LANGUAGE sql STABLE AS 'SELECT ''new''';
      CREATE POLICY mine ON orders USING (status = first_status())`,
    sql: 'ALTER FUNCTION first_status() IMMUTABLE',
    told: ['FUNCTION_CHANGED'],
    silent: ['FUNCTION_CHANGED'],
  },
  {
    what: 'a policy that calls its function once for a statement',
    setup: `ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
      CREATE POLICY mine ON orders USING (status = current_setting('app.status'));
      CREATE POLICY role ON orders USING (status = current_user)`,
    sql: `ALTER POLICY mine ON orders USING (status = (SELECT current_setting('app.status')));
      ALTER POLICY role ON orders USING (status = (SELECT current_user))`,
    silent: ['POLICY_CHANGED'],
  },
  {
    what: 'REFRESH MATERIALIZED VIEW CONCURRENTLY keeps nobody out',
    sql: 'REFRESH MATERIALIZED VIEW CONCURRENTLY totals',
    silent: ['STRONG_LOCK_HELD', 'REFRESH_NOT_CONCURRENT'],
  },
  {
    what: 'CREATE INDEX ON ONLY builds nothing',
    sql: 'CREATE INDEX days_day ON ONLY days (day)',
    silent: ['INDEX_NOT_CONCURRENT', 'STRONG_LOCK_HELD'],
  },
  {
    what: 'a foreign key NOT ENFORCED needs no VALIDATE',
    sql: 'ALTER TABLE orders ADD CONSTRAINT fk FOREIGN KEY (customer) REFERENCES customers NOT ENFORCED',
    silent: ['CONSTRAINT_LEFT_NOT_VALID', 'FOREIGN_KEY_SCANS_TABLE'],
  },
  {
    what: "golang-migrate's TRUNCATE of its own table",
    sql: 'BEGIN; TRUNCATE schema_migrations; INSERT INTO schema_migrations VALUES (2, false); COMMIT',
    silent: ['TABLE_TRUNCATED', 'STRONG_LOCK_HELD'],
  },
  {
    what: 'of two renamed columns of one name each has its own statement',
    sql: 'ALTER TABLE auto_sales_channels RENAME sales_channel TO channel; ALTER TABLE orders RENAME sales_channel TO channel',
    told: ['COLUMN_RENAMED'],
    says: /orders/,
    statement: 'ALTER TABLE orders RENAME',
  },
  {
    what: 'a column that is renamed and then dropped has the statement of the drop',
    sql: 'ALTER TABLE orders RENAME sales_channel TO old_channel; ALTER TABLE orders DROP old_channel',
    told: ['COLUMN_DROPPED'],
    statement: 'ALTER TABLE orders DROP',
  },
  {
    what: 'a column that is replaced by a copy which takes its name',
    sql: 'ALTER TABLE orders ADD status_new text; UPDATE orders SET status_new = status; ALTER TABLE orders DROP status; ALTER TABLE orders RENAME status_new TO status',
    told: ['COLUMN_DROPPED'],
    says: /which takes its name and has the same values/,
    statement: 'ALTER TABLE orders DROP',
  },
  {
    what: 'a column that is replaced by another one which takes its name and has other values',
    sql: "ALTER TABLE orders ADD status_new text; UPDATE orders SET status_new = 'old'; ALTER TABLE orders DROP status; ALTER TABLE orders RENAME status_new TO status",
    told: ['COLUMN_DROPPED'],
    says: /which takes its name$/,
    statement: 'ALTER TABLE orders DROP',
  },
  {
    what: 'a column that a DO block drops, after another block',
    sql: 'BEGIN; DO $$ BEGIN LOCK orders; END $$; DO $$ BEGIN ALTER TABLE orders DROP COLUMN sales_channel; END $$; COMMIT',
    told: ['COLUMN_DROPPED'],
    statement: 'DO $$ BEGIN ALTER',
    relation: 'orders',
  },
  {
    what: 'a column that a DO block renames',
    sql: 'DO $$ BEGIN ALTER TABLE orders RENAME COLUMN sales_channel TO named_by_code; END $$',
    told: ['COLUMN_RENAMED'],
    statement: 'DO $$ BEGIN ALTER',
    relation: 'orders',
  },
  {
    what: 'values that USING replaces without a change of the type',
    sql: 'ALTER TABLE orders ALTER sales_channel TYPE text USING NULL',
    told: ['VALUES_CONVERTED'],
    statement: 'ALTER TABLE orders',
    relation: 'orders',
  },
  {
    what: 'leading zeros that a number does not keep',
    setup: PLACES,
    sql: 'ALTER TABLE places ALTER postcode TYPE integer USING postcode::integer',
    told: ['VALUES_CONVERTED'],
    statement: 'ALTER TABLE places',
    relation: 'places',
    says: /^the new type of tried_\d+_\.places\.postcode cuts or rounds its values$/,
  },
  {
    what: 'text that is a number as it stands',
    setup: PLACES,
    sql: 'ALTER TABLE places ALTER number TYPE integer USING number::integer',
    never: ['VALUES_CONVERTED'],
  },
  {
    what: 'three labels that become two',
    setup: `${ROLES}; UPDATE people SET role = 'Admin' WHERE role = 'admin'`,
    sql: "ALTER TABLE people ALTER role TYPE role USING CASE role WHEN 'owner' THEN 'owner' ELSE 'member' END::role",
    told: ['VALUES_CONVERTED'],
    grave: true,
    statement: 'ALTER TABLE people',
    relation: 'people',
    says: /^different values of tried_\d+_\.people\.role become the same$/,
  },
  {
    what: 'labels that differ in their spelling alone, and become one',
    setup: ROLES,
    sql: 'ALTER TABLE people ALTER role TYPE role USING lower(role)::role',
    told: ['VALUES_CONVERTED'],
    silent: ['VALUES_CONVERTED'],
  },
  {
    what: 'texts that are cut',
    setup: PLACES,
    sql: 'ALTER TABLE places ALTER postcode TYPE varchar(3) USING left(postcode, 3)',
    told: ['VALUES_CONVERTED'],
    grave: true,
    relation: 'places',
    says: /^values of tried_\d+_\.places\.postcode are cut$/,
  },
  {
    what: 'codes for longer words',
    setup: PLACES,
    sql: "ALTER TABLE places ALTER postcode TYPE varchar(4) USING lpad(to_hex(id), 4, 'x')",
    told: ['VALUES_CONVERTED'],
    silent: ['VALUES_CONVERTED'],
  },
  {
    what: 'values that a DO block converts',
    sql: "DO $$ BEGIN EXECUTE 'ALTER TABLE orders ALTER status TYPE text USING NULL'; END $$",
    told: ['VALUES_CONVERTED'],
    statement: 'DO $$ BEGIN EXECUTE',
    relation: 'orders',
  },
  {
    what: 'USING that leaves each value as it is',
    sql: 'ALTER TABLE orders ALTER status TYPE varchar(20) USING trim(status)',
    never: ['VALUES_CONVERTED'],
  },
  ...BY_CODE.map(([what, sql, begin = sql]) => ({
    what: `rows that ${what} changes`,
    sql,
    told: ['BACKFILL_IN_ONE_TRANSACTION'],
    statement: begin,
    relation: 'orders',
    says: /^2,000 rows of tried_\d+_\.orders are changed in one transaction$/,
  })),
  {
    what: 'batches that a procedure commits are no transaction of all rows',
    sql: 'CALL fill_parts()',
    never: ['BACKFILL_IN_ONE_TRANSACTION'],
  },
  {
    what: 'batches that a DO block commits are no transaction of all rows',
    sql: "DO $$ BEGIN FOR part IN 0..9 LOOP UPDATE orders SET status = 'x' WHERE id / 201 = part; COMMIT; END LOOP; END $$",
    never: ['BACKFILL_IN_ONE_TRANSACTION'],
  },
  {
    what: 'rows that a function changes while a table is locked',
    sql: 'BEGIN; ALTER TABLE customers ADD note text; SELECT fill(); COMMIT',
    told: ['BACKFILL_WITH_DDL'],
    statement: 'SELECT fill()',
    relation: 'orders',
  },
  {
    what: "a migration tool's lock is not what a backfill changes",
    sql: "BEGIN; UPDATE tool_lock SET is_locked = 1; UPDATE orders SET status = 'x'; COMMIT",
    told: ['BACKFILL_IN_ONE_TRANSACTION'],
    statement: 'UPDATE orders',
    relation: 'orders',
    says: /^2,000 rows of tried_\d+_\.orders are/,
  },
  ...WEAKENED.map((each) => ({ ...each, grave: true as const })),
  {
    what: 'rows that are locked and not changed',
    sql: 'SELECT id FROM orders FOR UPDATE',
    told: ['ROWS_LOCKED'],
    statement: 'SELECT id FROM orders',
    relation: 'orders',
    says: /^2,000 rows of tried_\d+_\.orders stay locked/,
  },
  {
    what: 'rows that a subselect locks, and that are counted',
    sql: 'SELECT count(*) FROM (SELECT id FROM orders FOR UPDATE) AS locked',
    told: ['ROWS_LOCKED'],
    statement: 'SELECT count(*) FROM (SELECT id',
    relation: 'orders',
    says: /^(?:about )?2,000 rows of tried_\d+_\.orders stay locked/,
  },
  {
    what: 'some rows that a subselect locks',
    sql: 'WITH few AS (SELECT id FROM orders WHERE id < 9 FOR UPDATE) SELECT count(*) FROM few; SELECT id FROM (SELECT id FROM orders FOR UPDATE) AS locked LIMIT 1',
    never: ['ROWS_LOCKED'],
  },
  {
    what: 'rows that are locked for other changes of keys alone, and those of a batch',
    sql: 'SELECT id FROM orders FOR KEY SHARE; SELECT id FROM orders WHERE id <= 500 FOR UPDATE SKIP LOCKED',
    never: ['ROWS_LOCKED'],
  },
  {
    what: 'one row that a join with many locks',
    sql: 'SELECT i.id FROM items i CROSS JOIN orders o WHERE i.id = 1 FOR UPDATE OF i',
    never: ['ROWS_LOCKED'],
  },
  {
    what: 'rows that are locked and then changed',
    sql: "BEGIN; SELECT id FROM orders FOR UPDATE; UPDATE orders SET status = 'x'; COMMIT",
    told: ['BACKFILL_IN_ONE_TRANSACTION'],
    never: ['ROWS_LOCKED'],
  },
  {
    what: 'deleted rows whose references have no index, beside a key of the same columns that was there',
    setup: `CREATE TABLE parts (item int REFERENCES items ON DELETE CASCADE, CONSTRAINT again FOREIGN KEY (item) REFERENCES items);
      INSERT INTO parts SELECT n FROM generate_series(1, 2000) n`,
    sql: 'ALTER TABLE parts DROP CONSTRAINT again; DELETE FROM items WHERE id <= 60',
    told: ['FOREIGN_KEY_WITHOUT_INDEX'],
    statement: 'DELETE FROM items',
    relation: 'parts',
    says: /^each row that is deleted from tried_\d+_\.items reads all of/,
  },
  {
    what: 'a table that is truncated, and that a crash empties too',
    setup: 'CREATE UNLOGGED TABLE staging AS SELECT generate_series(1, 2000) AS id',
    sql: 'TRUNCATE staging',
    told: ['TABLE_TRUNCATED'],
    silent: ['TABLE_TRUNCATED'],
  },
  {
    what: 'an index of a foreign key beside another one of its columns may be dropped',
    sql: 'CREATE INDEX items_more ON items (customer, id); DROP INDEX items_of_customer',
    never: ['FOREIGN_KEY_WITHOUT_INDEX'],
  },
  {
    what: 'an index of a foreign key may leave out NULLs',
    sql: 'CREATE INDEX items_some ON items (customer) WHERE customer IS NOT NULL; DROP INDEX items_of_customer',
    never: ['FOREIGN_KEY_WITHOUT_INDEX'],
  },
  {
    what: 'an index of a foreign key that leaves out other rows',
    sql: 'CREATE INDEX items_some ON items (customer) WHERE id IS NOT NULL; DROP INDEX items_of_customer',
    told: ['FOREIGN_KEY_WITHOUT_INDEX'],
  },
  {
    what: 'IF NOT EXISTS of what is there with the same definition',
    sql: 'CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY, status text); CREATE INDEX IF NOT EXISTS orders_customer ON orders (customer); ALTER TABLE orders ADD COLUMN IF NOT EXISTS customer int',
    never: ['IF_NOT_EXISTS_DIFFERS'],
  },
];

let report: Report;

beforeAll(async () => {
  await useOwnServers(18);
  const sessions = EXAMPLES.map(({ sql, setup = '' }) => ({ sql, setup: `${SETUP}; ${setup}` }));
  report = await rehearseInSchemas(18, sessions, { before: 'CREATE EXTENSION hstore' });
}, 600_000);

describe('what was told wrongly or not at all', () => {
  test.each(EXAMPLES.map((example, index) => ({ ...example, index })))(
    '$what',
    ({ index, told = [], silent = [], never = [], relation, statement, says, grave: isGrave }) => {
      const hazards = hazardsOf(index);
      expect(failuresOf(index)).toEqual([]);
      expect(hazards.map(({ code }) => code)).toEqual(expect.arrayContaining([...told]));
      const grave = hazards.filter(({ severity }) => severity !== 'notice').map(({ code }) => code);
      expect(grave.filter((code) => silent.includes(code))).toEqual([]);
      expect(hazards.map(({ code }) => code).filter((code) => never.includes(code))).toEqual([]);
      if (isGrave) expect(grave).toEqual(expect.arrayContaining([...told]));
      const [code] = told;
      const own = hazards.filter((each) => each.code === code && (says?.test(each.message) ?? true));
      if (code) expect(own).not.toEqual([]);
      if (code && statement)
        expect(own.map((each) => textOf(each)?.slice(0, statement.length))).toContain(statement);
      if (relation) expect(own.map((each) => each.relation)).toEqual([`${schemaOf(index)}.${relation}`]);
    },
  );
});

const textOf = ({ statement }: Hazard) =>
  report.statements.find(({ index }) => index === statement)?.sql ?? null;

function failuresOf(index: number): string[] {
  return statementsOf(report, index).flatMap(({ error }) => error?.message ?? []);
}

/** By the session of the statement: another one's relation of that name would be found by it too. */
function hazardsOf(index: number): Hazard[] {
  const statements = statementsOf(report, index);
  return report.hazards.filter(({ statement, relation }) =>
    statement === null
      ? (relation?.startsWith(`${schemaOf(index)}.`) ?? false)
      : statements.some((each) => each.index === statement),
  );
}
