import { type HazardExample, testHazardExamples } from '../../helpers/hazard-examples.ts';

/** Changes that the catalogue shows before and after, or that one question to the server shows; each with one that is harmless. */
const ITEMS = `CREATE TABLE items (id int PRIMARY KEY, code text, note text);
  INSERT INTO items SELECT n, 'C' || n, 'note' FROM generate_series(1, 2000) n; `;
const MANY = `CREATE TABLE many (id int PRIMARY KEY, code text); INSERT INTO many SELECT n, 'C' || n FROM generate_series(1, 150000) n; `;
const SEARCH = "SET enable_seqscan = off; SELECT id FROM many WHERE lower(code) = 'c7'";
const PARTED = `CREATE TABLE parted (id int) PARTITION BY LIST (id); CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
  CREATE FUNCTION keep_:schema() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
  CREATE TRIGGER kept BEFORE INSERT ON parted FOR EACH ROW EXECUTE FUNCTION keep_:schema(); `;
const TWO_TRIGGERS = `${ITEMS}CREATE FUNCTION keep_:schema() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
  CREATE TRIGGER cut BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION keep_:schema();
  CREATE TRIGGER keep BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION keep_:schema(); `;
const ROLE =
  'GRANT ALL ON ALL TABLES IN SCHEMA :schema TO tried_app; GRANT USAGE ON SCHEMA :schema TO tried_app; ';

const KINDS =
  "CREATE TYPE kind_:schema AS ENUM ('letter', 'box', 'pallet'); CREATE TABLE parcels (id int PRIMARY KEY, kind kind_:schema); ";

const VISITS = `CREATE TABLE visits (at date NOT NULL) PARTITION BY RANGE (at);
  CREATE TABLE visits_1 PARTITION OF visits FOR VALUES FROM ('2027-01-01') TO ('2027-02-01'); `;
const CLICKS = 'CREATE TABLE clicks (id serial PRIMARY KEY, page text); ';
const PRICES =
  'CREATE TABLE prices (id int PRIMARY KEY, amount int CONSTRAINT positive CHECK (amount > 0), code text UNIQUE); ';
const DRAW = 'CREATE SEQUENCE numbers_:schema; CREATE TABLE drawn (id int PRIMARY KEY); ';
const draw = (query: string) =>
  `CREATE OR REPLACE FUNCTION draw_:schema() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (${query}); END'; `;

testHazardExamples([
  {
    what: 'a function that counts rows instead of taking numbers',
    setup: `${DRAW}${draw("SELECT nextval('':schema.numbers_:schema'')")}`,
    sql: draw('SELECT coalesce(max(id), 0) + 1 FROM :schema.drawn'),
    told: 'FUNCTION_CHANGED',
  },
  {
    what: 'a function that takes numbers from another sequence',
    setup: `${DRAW}CREATE SEQUENCE more_:schema; ${draw("SELECT nextval('':schema.numbers_:schema'')")}`,
    sql: draw("SELECT nextval('':schema.more_:schema'') + 0 * (SELECT count(*) FROM :schema.drawn)"),
  },
  {
    what: 'a catalogue that is written',
    setup: ITEMS,
    sql: "UPDATE pg_attribute SET attstattarget = 200 WHERE attrelid = 'items'::regclass AND attname = 'code'",
    told: 'CATALOGUE_WRITTEN',
  },
  {
    what: 'a catalogue that a DO block writes',
    setup: KINDS,
    sql: "DO $$ BEGIN DELETE FROM pg_catalog.pg_enum WHERE enumtypid = 'kind_:schema'::regtype AND enumlabel = 'pallet'; END $$",
    told: 'CATALOGUE_WRITTEN',
  },
  {
    what: 'catalogues that are read, and an own table of such a name',
    setup: `${ITEMS}CREATE TABLE pg_index_sizes (id int); CREATE TABLE pg_notes (id int PRIMARY KEY, name text)`,
    sql: `DO $$ BEGIN /* UPDATE pg_class */ PERFORM 1 FROM pg_catalog.pg_class; END $$; INSERT INTO pg_notes SELECT oid::bigint % 1000000, relname FROM pg_class LIMIT 1;
      INSERT INTO pg_index_sizes VALUES (1)`,
    never: 'CATALOGUE_WRITTEN',
  },
  {
    what: 'a new partition that lacks the last day of its month',
    setup: VISITS,
    sql: `CREATE TABLE visits_2 PARTITION OF visits FOR VALUES FROM ('2027-02-01') TO ('2027-02-28');
      CREATE TABLE visits_3 PARTITION OF visits FOR VALUES FROM ('2027-03-01') TO ('2027-04-01')`,
    told: 'PARTITION_GAP',
  },
  {
    what: 'a partition of numbers that is attached one too late',
    setup:
      'CREATE TABLE runs (id int) PARTITION BY RANGE (id); CREATE TABLE runs_1 PARTITION OF runs FOR VALUES FROM (MINVALUE) TO (1000); CREATE TABLE runs_2 (id int)',
    sql: 'ALTER TABLE runs ATTACH PARTITION runs_2 FOR VALUES FROM (1001) TO (2000)',
    told: 'PARTITION_GAP',
  },
  {
    what: 'partitions that meet, one after a year, and one after a gap that was there',
    setup: `${VISITS}CREATE TABLE visits_0 PARTITION OF visits FOR VALUES FROM ('2026-12-01') TO ('2026-12-31')`,
    sql: `CREATE TABLE visits_2 PARTITION OF visits FOR VALUES FROM ('2027-02-01') TO ('2027-03-01');
      CREATE TABLE visits_9 PARTITION OF visits FOR VALUES FROM ('2028-02-01') TO ('2028-03-01');
      CREATE TABLE visits_10 PARTITION OF visits FOR VALUES FROM ('2028-03-01') TO (MAXVALUE);
      CREATE TABLE named (name text) PARTITION BY RANGE (name); CREATE TABLE named_1 PARTITION OF named FOR VALUES FROM ('a') TO ('m');
      CREATE TABLE named_2 PARTITION OF named FOR VALUES FROM ('n') TO ('z');
      CREATE TABLE pairs (a int, b int) PARTITION BY RANGE (a, b); CREATE TABLE pairs_1 PARTITION OF pairs FOR VALUES FROM (1, 1) TO (5, 5)`,
    never: 'PARTITION_GAP',
  },
  {
    what: 'a last partition that lacks the last day of its month',
    setup: VISITS,
    sql: "CREATE TABLE visits_2 PARTITION OF visits FOR VALUES FROM ('2027-02-01') TO ('2027-02-28')",
    told: 'PARTITION_GAP',
  },
  {
    what: 'a last partition that lacks the last second of its month',
    setup: `CREATE TABLE visits (at timestamptz NOT NULL) PARTITION BY RANGE (at);
      CREATE TABLE visits_1 PARTITION OF visits FOR VALUES FROM ('2027-03-01') TO ('2027-04-01')`,
    sql: "CREATE TABLE visits_2 PARTITION OF visits FOR VALUES FROM ('2027-04-01') TO ('2027-04-30 23:59:59')",
    told: 'PARTITION_GAP',
  },
  {
    what: 'a month that is passed over',
    setup: `${VISITS}CREATE TABLE visits_2 PARTITION OF visits FOR VALUES FROM ('2027-02-01') TO ('2027-03-01')`,
    sql: "CREATE TABLE visits_4 PARTITION OF visits FOR VALUES FROM ('2027-04-01') TO ('2027-05-01')",
    told: 'PARTITION_GAP',
  },
  {
    what: 'months that are passed over in the order of the statements, last weeks, a DEFAULT partition, and a first partition that is dropped',
    setup: `${VISITS}CREATE TABLE visits_2 PARTITION OF visits FOR VALUES FROM ('2027-02-01') TO ('2027-03-01');
      CREATE TABLE weeks (at date) PARTITION BY RANGE (at); CREATE TABLE weeks_1 PARTITION OF weeks FOR VALUES FROM ('2027-01-04') TO ('2027-02-01');
      CREATE TABLE kept (at date) PARTITION BY RANGE (at); CREATE TABLE kept_1 PARTITION OF kept FOR VALUES FROM ('2027-01-01') TO ('2027-02-01');
      CREATE TABLE kept_2 PARTITION OF kept FOR VALUES FROM ('2027-02-01') TO ('2027-03-01'); CREATE TABLE kept_rest PARTITION OF kept DEFAULT;
      CREATE TABLE listed (name text) PARTITION BY LIST (name); CREATE TABLE listed_1 PARTITION OF listed FOR VALUES IN ('a');
      CREATE TABLE hashed (id int) PARTITION BY HASH (id); CREATE TABLE hashed_1 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
      CREATE TABLE named (name text) PARTITION BY RANGE (name); CREATE TABLE named_1 PARTITION OF named FOR VALUES FROM ('a') TO ('m');
      CREATE TABLE named_2 PARTITION OF named FOR VALUES FROM ('m') TO ('p')`,
    sql: `CREATE TABLE visits_4 PARTITION OF visits FOR VALUES FROM ('2027-04-01') TO ('2027-05-01');
      CREATE TABLE visits_3 PARTITION OF visits FOR VALUES FROM ('2027-03-01') TO ('2027-04-01'); DROP TABLE visits_1;
      CREATE TABLE visits_5 PARTITION OF visits FOR VALUES FROM ('2027-05-01') TO ('2027-05-16');
      CREATE TABLE weeks_2 PARTITION OF weeks FOR VALUES FROM ('2027-02-01') TO ('2027-02-28');
      CREATE TABLE kept_4 PARTITION OF kept FOR VALUES FROM ('2027-04-01') TO ('2027-04-30');
      CREATE TABLE listed_2 PARTITION OF listed FOR VALUES IN ('c'); CREATE TABLE hashed_2 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
      CREATE TABLE named_3 PARTITION OF named FOR VALUES FROM ('q') TO ('z')`,
    never: 'PARTITION_GAP',
  },
  {
    what: 'a partition of some time that is dropped',
    setup: `${VISITS}CREATE TABLE visits_2 PARTITION OF visits FOR VALUES FROM ('2027-02-01') TO ('2027-03-01');
      CREATE TABLE visits_3 PARTITION OF visits FOR VALUES FROM ('2027-03-01') TO ('2027-04-01')`,
    sql: 'DROP TABLE visits_2',
    never: 'PARTITION_GAP',
  },
  {
    what: 'a serial column that becomes a bigint without its sequence',
    setup: CLICKS,
    sql: 'ALTER TABLE clicks ALTER COLUMN id TYPE bigint',
    told: 'SEQUENCE_ENDS_EARLY',
  },
  {
    what: 'a smallserial column that becomes an integer without its sequence',
    setup: 'CREATE TABLE clicks (id smallserial PRIMARY KEY)',
    sql: 'ALTER TABLE clicks ALTER COLUMN id TYPE integer',
    told: 'SEQUENCE_ENDS_EARLY',
  },
  {
    what: 'a column of bigint that takes the place of a serial one, with its sequence',
    setup: CLICKS,
    sql: `ALTER TABLE clicks ADD COLUMN id_new bigint; UPDATE clicks SET id_new = id; ALTER TABLE clicks ALTER COLUMN id_new SET NOT NULL;
      BEGIN; ALTER TABLE clicks RENAME COLUMN id TO id_old; ALTER TABLE clicks RENAME COLUMN id_new TO id;
      ALTER TABLE clicks ALTER COLUMN id SET DEFAULT nextval('clicks_id_seq'), ALTER COLUMN id_old DROP DEFAULT; COMMIT`,
    told: 'SEQUENCE_ENDS_EARLY',
  },
  {
    what: 'a bigserial column, an identity, a sequence that is altered, one that cycles, and chosen ends',
    setup: `${CLICKS}CREATE TABLE hits (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
      CREATE SEQUENCE tens_:schema MAXVALUE 10000; CREATE TABLE draws (id int DEFAULT nextval('tens_:schema'));
      CREATE SEQUENCE turns_:schema AS integer CYCLE; CREATE TABLE rounds (id int DEFAULT nextval('turns_:schema'));
      CREATE SEQUENCE wide_:schema; CREATE TABLE waves (id int DEFAULT nextval('wide_:schema'));
      CREATE SEQUENCE small_:schema AS integer; CREATE TABLE kept (id bigint DEFAULT nextval('small_:schema'))`,
    sql: `ALTER SEQUENCE clicks_id_seq AS bigint; ALTER TABLE clicks ALTER COLUMN id TYPE bigint; ALTER TABLE hits ALTER COLUMN id TYPE bigint;
      ALTER TABLE draws ALTER COLUMN id TYPE bigint; ALTER TABLE rounds ALTER COLUMN id TYPE bigint; ALTER TABLE waves ALTER COLUMN id TYPE bigint;
      INSERT INTO kept DEFAULT VALUES; CREATE SEQUENCE own_:schema AS integer; ALTER TABLE kept ALTER COLUMN id SET DEFAULT nextval('own_:schema');
      CREATE SEQUENCE first_:schema AS integer; CREATE TABLE made (id bigint DEFAULT nextval('first_:schema'))`,
    never: 'SEQUENCE_ENDS_EARLY',
  },
  {
    what: 'a CHECK that is to replace one of another name',
    setup: PRICES,
    sql: 'ALTER TABLE prices DROP CONSTRAINT IF EXISTS prices_amount_check; ALTER TABLE prices ADD CONSTRAINT prices_amount_check CHECK (amount > -100)',
    told: 'WITHOUT_EFFECT',
  },
  {
    what: 'a list of values that is to replace one of another name',
    setup: `CREATE TABLE marks (id int PRIMARY KEY, state varchar(9) CONSTRAINT states CHECK (state IN ('new', 'done')))`,
    sql: "ALTER TABLE marks DROP CONSTRAINT IF EXISTS marks_state, ADD CONSTRAINT marks_state CHECK (state IN ('new', 'done', 'lost'))",
    told: 'WITHOUT_EFFECT',
  },
  {
    what: 'a UNIQUE that is to replace one of another name',
    setup: PRICES,
    sql: 'ALTER TABLE prices DROP CONSTRAINT IF EXISTS prices_code, ADD CONSTRAINT prices_code UNIQUE (code)',
    told: 'WITHOUT_EFFECT',
  },
  {
    what: 'constraints that are new, another one of a column, and one that is replaced',
    setup: `${PRICES}ALTER TABLE prices ADD CONSTRAINT odd CHECK (id % 2 < 5)`,
    sql: `ALTER TABLE prices DROP CONSTRAINT IF EXISTS small, ADD CONSTRAINT small CHECK (amount < 1000);
      ALTER TABLE prices DROP CONSTRAINT IF EXISTS long, ADD CONSTRAINT long CHECK (length(code) > 2);
      ALTER TABLE prices DROP CONSTRAINT IF EXISTS odd; ALTER TABLE prices ADD CONSTRAINT odd CHECK (id % 2 < 10)`,
    never: 'WITHOUT_EFFECT',
  },
  {
    what: 'a sequence that is taken from a role which inserts',
    setup: `CREATE TABLE slips (id serial PRIMARY KEY, code text); INSERT INTO slips (code) SELECT 'x' FROM generate_series(1, 50);
      ${ROLE}GRANT USAGE ON SEQUENCE slips_id_seq TO tried_app`,
    sql: 'REVOKE ALL ON SEQUENCE slips_id_seq FROM tried_app',
    told: 'PRIVILEGES_REVOKED',
  },
  {
    what: 'a sequence that is taken from a role together with the table',
    setup: `CREATE TABLE scrips (id serial PRIMARY KEY, code text); INSERT INTO scrips (code) SELECT 'x' FROM generate_series(1, 50);
      ${ROLE}REVOKE UPDATE, DELETE, SELECT ON scrips FROM tried_app; GRANT USAGE ON SEQUENCE scrips_id_seq TO tried_app`,
    sql: 'REVOKE ALL ON SEQUENCE scrips_id_seq FROM tried_app; REVOKE INSERT ON scrips FROM tried_app; GRANT SELECT ON scrips TO tried_app',
    never: 'WITHOUT_EFFECT',
  },
  {
    what: 'a function of a policy that becomes VOLATILE',
    setup: `${ITEMS}CREATE FUNCTION own_code_:schema() RETURNS text LANGUAGE sql STABLE AS 'SELECT current_setting(''tried.code'', true)';
      CREATE POLICY own ON items USING (code = own_code_:schema()); ALTER TABLE items ENABLE ROW LEVEL SECURITY`,
    sql: "CREATE OR REPLACE FUNCTION own_code_:schema() RETURNS text LANGUAGE sql AS 'SELECT current_setting(''tried.code'', true)'",
    told: 'FUNCTION_CHANGED',
  },
  {
    what: 'a unique index that a later transaction builds again',
    setup: `${ITEMS}CREATE UNIQUE INDEX codes ON items (lower(code)); ${ROLE}`,
    sql: 'BEGIN; DROP INDEX codes; COMMIT; BEGIN; CREATE UNIQUE INDEX codes ON items (lower(code)) INCLUDE (note); COMMIT',
    told: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'unique indexes that are built again before they are dropped, in the same transaction, or by REINDEX',
    setup: `${ITEMS}CREATE UNIQUE INDEX codes ON items (lower(code)); CREATE UNIQUE INDEX notes ON items (id, lower(note));
      CREATE UNIQUE INDEX pairs ON items (id, lower(code)); ${ROLE}`,
    sql: `BEGIN; CREATE UNIQUE INDEX codes_new ON items (lower(code)); COMMIT; BEGIN; DROP INDEX codes; ALTER INDEX codes_new RENAME TO codes; COMMIT;
      BEGIN; DROP INDEX notes; CREATE UNIQUE INDEX notes ON items (id, lower(note)); COMMIT; REINDEX INDEX pairs`,
    never: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'a trigger that fires after another one under its new name',
    setup: TWO_TRIGGERS,
    sql: 'ALTER TRIGGER cut ON items RENAME TO trim',
    told: 'TRIGGER_CHANGED',
  },
  {
    what: 'triggers that keep their order under new names',
    setup: `${TWO_TRIGGERS}CREATE TRIGGER apart AFTER DELETE ON items FOR EACH ROW EXECUTE FUNCTION keep_:schema();`,
    sql: 'ALTER TRIGGER cut ON items RENAME TO brief; ALTER TRIGGER keep ON items RENAME TO keeps; ALTER TRIGGER apart ON items RENAME TO zz',
  },
  {
    what: 'a trigger that is disabled in one partition',
    setup: PARTED,
    sql: 'ALTER TABLE parted_1 DISABLE TRIGGER kept',
    told: 'TRIGGER_OFF',
  },
  {
    what: 'a trigger that is disabled in one partition for a while',
    setup: PARTED,
    sql: 'ALTER TABLE parted_1 DISABLE TRIGGER kept; ALTER TABLE parted_1 ENABLE TRIGGER kept',
  },
  {
    what: 'a function of no policy that becomes VOLATILE',
    setup: "CREATE FUNCTION lone_:schema() RETURNS int LANGUAGE sql STABLE AS 'SELECT 1'",
    sql: "CREATE OR REPLACE FUNCTION lone_:schema() RETURNS int LANGUAGE sql AS 'SELECT 1'",
  },
  {
    what: 'a function that becomes STRICT, and took NULL for a default',
    setup: `${ITEMS}CREATE FUNCTION label_:schema(id int, note text) RETURNS text LANGUAGE plpgsql AS
      'BEGIN UPDATE items SET note = $2 WHERE items.id = $1; RETURN coalesce($2, ''none''); END'`,
    sql: 'ALTER FUNCTION label_:schema(int, text) STRICT',
    told: 'FUNCTION_CHANGED',
  },
  {
    what: 'a function that is replaced by one that is STRICT',
    setup: "CREATE FUNCTION net_:schema(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT coalesce($1, 0)'",
    sql: "CREATE OR REPLACE FUNCTION net_:schema(int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT $1'",
    told: 'FUNCTION_CHANGED',
  },
  {
    what: 'functions that become STRICT without anything to lose, or are STRICT no longer',
    setup: `CREATE FUNCTION half_:schema(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 / 2';
      CREATE FUNCTION none_:schema() RETURNS text LANGUAGE sql AS 'SELECT current_user::text';
      CREATE FUNCTION put_:schema(int) RETURNS int LANGUAGE plpgsql STRICT AS 'BEGIN RETURN $1; END'`,
    sql: `ALTER FUNCTION half_:schema(int) STRICT; ALTER FUNCTION none_:schema() STRICT;
      ALTER FUNCTION put_:schema(int) CALLED ON NULL INPUT`,
  },
  {
    what: 'a function that no longer locks the row that it returns',
    setup: `${ITEMS}CREATE FUNCTION next_:schema() RETURNS int LANGUAGE sql AS
      'SELECT id FROM items WHERE note = ''note'' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED'`,
    sql: `CREATE OR REPLACE FUNCTION next_:schema() RETURNS int LANGUAGE sql AS
      '-- The first one, as with FOR UPDATE.
      SELECT id FROM items WHERE note = ''note'' ORDER BY id LIMIT 1'`,
    told: 'FUNCTION_CHANGED',
  },
  {
    what: 'a function that is made again with another argument, and without its advisory lock',
    setup: `${ITEMS}CREATE FUNCTION take_:schema(id int) RETURNS text LANGUAGE plpgsql AS
      'BEGIN PERFORM pg_advisory_xact_lock($1); RETURN (SELECT code FROM items i WHERE i.id = $1); END'`,
    sql: `DROP FUNCTION take_:schema(int); CREATE FUNCTION take_:schema(id int, note text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS
      'BEGIN RETURN (SELECT code FROM items i WHERE i.id = $1); END'`,
    told: 'FUNCTION_CHANGED',
  },
  {
    what: 'functions that lock in another way, lock by another function, or had locks in comments only',
    setup: `${ITEMS}CREATE FUNCTION next_:schema() RETURNS int LANGUAGE sql AS 'SELECT id FROM items LIMIT 1 FOR UPDATE';
      CREATE FUNCTION held_:schema() RETURNS int LANGUAGE plpgsql AS 'BEGIN LOCK TABLE items; RETURN (SELECT count(*) FROM items); END';
      CREATE FUNCTION seen_:schema() RETURNS int LANGUAGE sql AS 'SELECT id /* not FOR UPDATE */ FROM items LIMIT 1';
      CREATE FUNCTION used_:schema(id int) RETURNS text LANGUAGE plpgsql AS
      'BEGIN PERFORM 1 FROM items i WHERE i.id = $1 FOR UPDATE; UPDATE items i SET note = ''x'' WHERE i.id = $1; RETURN ''x''; END'`,
    sql: `CREATE OR REPLACE FUNCTION next_:schema() RETURNS int LANGUAGE sql AS 'SELECT id FROM items LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED';
      CREATE FUNCTION hold_:schema() RETURNS void LANGUAGE sql AS 'SELECT pg_advisory_xact_lock(7)';
      CREATE OR REPLACE FUNCTION held_:schema() RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM :schema.hold_:schema(); RETURN (SELECT count(*) FROM items); END';
      CREATE OR REPLACE FUNCTION seen_:schema() RETURNS int LANGUAGE sql AS 'SELECT id FROM items LIMIT 1';
      CREATE OR REPLACE FUNCTION used_:schema(id int) RETURNS text LANGUAGE plpgsql AS
      'BEGIN UPDATE items i SET note = ''x'' WHERE i.id = $1 AND i.note <> ''x''; RETURN ''x''; END'`,
  },
  {
    what: 'a rule of a view that changes all rows of its table',
    setup: `${ITEMS}CREATE VIEW shown AS SELECT * FROM items;
      CREATE RULE noting AS ON UPDATE TO shown DO INSTEAD UPDATE items SET note = new.note WHERE items.id = old.id`,
    sql: 'CREATE OR REPLACE RULE noting AS ON UPDATE TO shown DO INSTEAD UPDATE items SET note = new.note',
    told: 'RULE_ADDED',
  },
  {
    what: 'a rule of a view whose second action deletes all rows of a table',
    setup: `${ITEMS}CREATE TABLE gone (id int); CREATE VIEW shown AS SELECT * FROM items`,
    sql: `CREATE RULE dropping AS ON DELETE TO shown DO INSTEAD (
      INSERT INTO gone VALUES (old.id); DELETE FROM items WHERE code IN (SELECT code FROM items i WHERE i.id > 0))`,
    told: 'RULE_ADDED',
  },
  {
    what: 'rules of a view that change the rows of the statement',
    setup: `${ITEMS}CREATE VIEW shown AS SELECT * FROM items`,
    sql: `CREATE RULE noting AS ON UPDATE TO shown DO INSTEAD UPDATE items SET note = 'a;b', code = (SELECT max(code) FROM items) WHERE (items.id = old.id);
      CREATE RULE dropping AS ON DELETE TO shown DO INSTEAD (DELETE FROM items WHERE items.id = old.id; UPDATE items SET note = 'x' WHERE items.code = old.code);
      CREATE RULE adding AS ON INSERT TO shown DO INSTEAD INSERT INTO items VALUES (new.id, new.code)`,
  },
  {
    what: 'a constraint of a domain whose columns have rows',
    setup: `CREATE DOMAIN part_:schema AS text CONSTRAINT parts CHECK (VALUE LIKE 'C%');
      CREATE TABLE items (id int PRIMARY KEY, code part_:schema); INSERT INTO items SELECT n, 'C' || n FROM generate_series(1, 50) n; ${ROLE}`,
    sql: 'ALTER DOMAIN part_:schema DROP CONSTRAINT parts',
    told: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'constraints of domains that stay under another name, go with the domain, or hold for no rows',
    setup: `CREATE DOMAIN part_:schema AS text CONSTRAINT parts CHECK (VALUE LIKE 'C%'); CREATE DOMAIN lone_:schema AS text CHECK (VALUE <> '');
      CREATE DOMAIN size_:schema AS int CONSTRAINT sizes CHECK (VALUE > 0); CREATE DOMAIN void_:schema AS int CONSTRAINT voids CHECK (VALUE > 0);
      CREATE TABLE items (id int PRIMARY KEY, code part_:schema, size size_:schema); CREATE TABLE empty (size void_:schema);
      INSERT INTO items SELECT n, 'C' || n, n FROM generate_series(1, 50) n; ${ROLE}`,
    sql: `ALTER DOMAIN part_:schema ADD CONSTRAINT part_codes CHECK (VALUE LIKE 'C%'); ALTER DOMAIN part_:schema DROP CONSTRAINT parts;
      ALTER DOMAIN size_:schema RENAME CONSTRAINT sizes TO positive; DROP DOMAIN lone_:schema; ALTER DOMAIN void_:schema DROP CONSTRAINT voids`,
    never: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'a table that is copied whole, and dropped',
    setup:
      "CREATE TABLE items AS SELECT n AS id, 'C' || n AS code, now() AS at FROM generate_series(1, 500) n",
    sql: 'CREATE TABLE items_kept AS TABLE items; DROP TABLE items',
  },
  {
    what: 'a table that is copied but for a column, and dropped',
    setup:
      "CREATE TABLE items AS SELECT n AS id, 'C' || n AS code, now() AS at FROM generate_series(1, 500) n",
    sql: 'CREATE TABLE items_kept AS SELECT id, at FROM items; DROP TABLE items',
    told: 'TABLE_DROPPED',
  },
  {
    what: 'a table that is copied but for a row, and dropped',
    setup:
      "CREATE TABLE items AS SELECT n AS id, 'C' || n AS code, now() AS at FROM generate_series(1, 500) n",
    sql: 'CREATE TABLE items_kept AS SELECT * FROM items WHERE id <> 7; DROP TABLE items',
    told: 'TABLE_DROPPED',
  },
  {
    what: 'a function beside another one, whose calls with a typed argument fit only one',
    setup: "CREATE FUNCTION due_:schema(day date) RETURNS text LANGUAGE sql AS 'SELECT ''x'''",
    sql: "CREATE FUNCTION due_:schema(id uuid) RETURNS text LANGUAGE sql AS 'SELECT ''x'''; CREATE FUNCTION due_:schema(day date, days int) RETURNS text LANGUAGE sql AS 'SELECT ''x'''",
  },
  {
    what: 'functions whose calls were ambiguous before',
    setup: `CREATE FUNCTION both_:schema(day date, n int DEFAULT 1) RETURNS int LANGUAGE sql AS 'SELECT 1';
      CREATE FUNCTION both_:schema(day date, t text DEFAULT 'x') RETURNS int LANGUAGE sql AS 'SELECT 1'`,
    sql: "CREATE FUNCTION both_:schema(id uuid, t text) RETURNS int LANGUAGE sql AS 'SELECT 1'",
  },
  {
    what: 'a sequence that is set back to behind the greatest value of its column',
    setup: `CREATE SEQUENCE lots_:schema; CREATE TABLE lots (id int DEFAULT nextval('lots_:schema'), code text);
      INSERT INTO lots SELECT nextval('lots_:schema'), 'x' FROM generate_series(1, 50); SELECT setval('lots_:schema', 5000)`,
    sql: "SELECT setval('lots_:schema', (SELECT max(id) FROM lots))",
  },
  {
    what: 'a sequence that is set back, and whose values rows have',
    setup: `CREATE SEQUENCE bills_:schema; CREATE TABLE bills (no text UNIQUE DEFAULT 'B' || nextval('bills_:schema'), code text);
      INSERT INTO bills (code) SELECT 'x' FROM generate_series(1, 50)`,
    sql: "SELECT setval('bills_:schema', 1)",
    told: 'SEQUENCE_BEHIND',
  },
  {
    what: 'a sequence of a serial column, beside others of texts',
    setup:
      "CREATE TABLE slats (id serial PRIMARY KEY, code text); INSERT INTO slats (code) SELECT 'x' FROM generate_series(1, 50)",
    sql: "SELECT setval('slats_id_seq', 1)",
    told: 'SEQUENCE_BEHIND',
  },
  {
    what: 'warnings that a function raises, and those of COMMIT',
    setup: '',
    sql: "DO $$ BEGIN RAISE WARNING 'so'; END $$; COMMIT; DROP TABLE IF EXISTS nothing",
  },
  {
    what: 'a policy of a table whose row security is off',
    setup: ITEMS,
    sql: 'CREATE POLICY own_:schema ON items USING (id = 1)',
    told: 'WITHOUT_EFFECT',
  },
  {
    what: 'a privilege that comes through another role',
    setup: `${ITEMS}DO $$ BEGIN CREATE ROLE tried_group; EXCEPTION WHEN duplicate_object THEN NULL; END $$; GRANT tried_group TO tried_app;
      GRANT SELECT ON items TO tried_group, tried_app`,
    sql: 'REVOKE SELECT ON :schema.items FROM tried_app',
    told: 'WITHOUT_EFFECT',
  },
  {
    what: 'all privileges that are revoked, and granted again',
    setup: `${ITEMS}${ROLE}`,
    sql: 'REVOKE ALL ON :schema.items FROM PUBLIC, tried_app; GRANT SELECT, INSERT, UPDATE, DELETE ON :schema.items TO tried_app',
    never: 'WITHOUT_EFFECT',
  },
  {
    what: 'a column that becomes a number, and refuses the truth values that code sends',
    setup: `CREATE TABLE items (id int PRIMARY KEY, sent bool NOT NULL); INSERT INTO items SELECT n, true FROM generate_series(1, 50) n; ${ROLE}`,
    sql: 'ALTER TABLE items ALTER sent TYPE smallint USING sent::int',
    told: 'COLUMN_RETYPED',
  },
  {
    what: 'a number that becomes a text, and no longer compares with numbers',
    setup: `CREATE TABLE items (id int PRIMARY KEY, no int); INSERT INTO items SELECT n, n FROM generate_series(1, 50) n; ${ROLE}`,
    sql: 'ALTER TABLE items ALTER no TYPE text',
    told: 'COLUMN_RETYPED',
  },
  {
    what: 'a default that gives numbers, and is dropped',
    setup: `CREATE SEQUENCE numbers_:schema; CREATE TABLE items (id int PRIMARY KEY, no text NOT NULL DEFAULT 'R' || nextval('numbers_:schema'));
      INSERT INTO items SELECT n FROM generate_series(1, 50) n; ${ROLE}`,
    sql: 'ALTER TABLE items ALTER no DROP DEFAULT',
    told: 'DEFAULT_CHANGED',
  },
  {
    what: 'a default that is dropped for another one that gives numbers',
    setup: `CREATE SEQUENCE numbers_:schema; CREATE TABLE items (id int PRIMARY KEY, no text NOT NULL DEFAULT 'R' || nextval('numbers_:schema'));
      INSERT INTO items SELECT n FROM generate_series(1, 50) n; ${ROLE}`,
    sql: "ALTER TABLE items ALTER no SET DEFAULT 'S' || nextval('numbers_:schema')",
    never: 'DEFAULT_CHANGED',
  },
  {
    what: 'a column that takes longer texts',
    setup: `CREATE TABLE items (id int PRIMARY KEY, code varchar(9)); INSERT INTO items SELECT n, 'C' || n FROM generate_series(1, 50) n; ${ROLE}`,
    sql: 'ALTER TABLE items ALTER code TYPE text',
    never: 'COLUMN_RETYPED',
  },
  {
    what: 'a value of an enum that a CHECK refuses',
    setup: `${KINDS}ALTER TABLE parcels ADD CHECK (kind IN ('letter', 'box', 'pallet'))`,
    sql: "ALTER TYPE kind_:schema ADD VALUE 'fragile'",
    told: 'ENUM_VALUE_UNLISTED',
  },
  {
    what: 'a value of an enum that no partition takes',
    setup: `${KINDS}CREATE TABLE sent (kind kind_:schema) PARTITION BY LIST (kind);
      CREATE TABLE sent_small PARTITION OF sent FOR VALUES IN ('letter', 'box'); CREATE TABLE sent_large PARTITION OF sent FOR VALUES IN ('pallet')`,
    sql: "ALTER TYPE kind_:schema ADD VALUE 'fragile' BEFORE 'box'",
    told: 'ENUM_VALUE_UNLISTED',
  },
  {
    what: 'a value of an enum that a CASE statement has no branch for',
    setup: `${KINDS}CREATE FUNCTION fee_:schema(kind_:schema) RETURNS int LANGUAGE plpgsql AS
      'BEGIN CASE $1 WHEN ''letter'' THEN RETURN 1; WHEN ''box'', ''pallet'' THEN RETURN 2; END CASE; END'`,
    sql: "ALTER TYPE kind_:schema ADD VALUE 'fragile'",
    told: 'ENUM_VALUE_UNLISTED',
  },
  {
    what: 'a value of an enum for which lists have a rest',
    setup: `${KINDS}ALTER TABLE parcels ADD CHECK (kind <> 'pallet' OR id > 0), ADD CHECK (kind IN ('letter', 'box', 'pallet') OR id < 9);
      CREATE TABLE sent (kind kind_:schema) PARTITION BY LIST (kind); CREATE TABLE sent_rest PARTITION OF sent DEFAULT;
      CREATE TABLE sent_all PARTITION OF sent FOR VALUES IN ('letter', 'box', 'pallet');
      CREATE FUNCTION fee_:schema(kind_:schema) RETURNS int LANGUAGE plpgsql AS
      'BEGIN CASE $1 WHEN ''letter'' THEN RETURN 1; WHEN ''box'', ''pallet'' THEN RETURN 2; ELSE RETURN 3; END CASE; END'`,
    sql: "ALTER TYPE kind_:schema ADD VALUE 'fragile'",
  },
  {
    what: 'a value of an enum in a list that is extended',
    setup: `${KINDS}ALTER TABLE parcels ADD CONSTRAINT kinds CHECK (kind IN ('letter', 'box', 'pallet'))`,
    sql: "ALTER TABLE parcels DROP CONSTRAINT kinds; ALTER TYPE kind_:schema ADD VALUE 'fragile'",
    never: 'ENUM_VALUE_UNLISTED',
  },
  {
    what: 'a publication that sends changes of partitions under the name of their table',
    setup: `CREATE TABLE days (day int) PARTITION BY LIST (day); CREATE TABLE day_1 PARTITION OF days FOR VALUES IN (1);
      CREATE PUBLICATION by_part_:schema FOR TABLE days`,
    sql: 'ALTER PUBLICATION by_part_:schema SET (publish_via_partition_root = true)',
    told: 'PUBLICATION_AFFECTED',
  },
  {
    what: 'publications without partitions of other tables',
    setup: `${ITEMS}CREATE TABLE days (day int) PARTITION BY LIST (day); CREATE TABLE day_1 PARTITION OF days FOR VALUES IN (1);
      CREATE PUBLICATION plain_:schema FOR TABLE items; CREATE PUBLICATION of_part_:schema FOR TABLE day_1`,
    sql: `ALTER PUBLICATION plain_:schema SET (publish_via_partition_root = true);
      ALTER PUBLICATION of_part_:schema SET (publish_via_partition_root = true)`,
  },
  {
    what: 'a unique index on an expression that is replaced by one on its column',
    setup: `${ITEMS}CREATE UNIQUE INDEX items_code ON items (lower(code))`,
    sql: 'CREATE UNIQUE INDEX CONCURRENTLY items_code_exact ON items (code); DROP INDEX CONCURRENTLY items_code',
    told: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'a unique index of some rows that is made again under its name for fewer',
    setup: `${ITEMS}CREATE UNIQUE INDEX items_code ON items (code) WHERE note IS NOT NULL`,
    sql: "DROP INDEX items_code; CREATE UNIQUE INDEX items_code ON items (code) WHERE note = 'note'",
    told: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'unique indexes of some rows that are made again for more of them',
    setup: `CREATE TABLE jobs (id int PRIMARY KEY, page int NOT NULL, state text, "Key" text); INSERT INTO jobs SELECT n, n, 'new', 'k' || n FROM generate_series(1, 50) n;
      CREATE UNIQUE INDEX jobs_active ON jobs (page) WHERE state = 'new'; CREATE UNIQUE INDEX jobs_key ON jobs ("Key"); ${ROLE}`,
    sql: `BEGIN; DROP INDEX jobs_active; CREATE UNIQUE INDEX jobs_active ON jobs (page) WHERE state IN ('new', 'paused');
      DROP INDEX jobs_key; CREATE UNIQUE INDEX jobs_key ON jobs ("Key") WHERE "Key" IS NOT NULL; COMMIT`,
    never: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'a unique index of some rows that is made again for others, with a condition that reads like a plan',
    setup: `CREATE TABLE jobs (id int PRIMARY KEY, page int NOT NULL, state text); INSERT INTO jobs SELECT n, n, 'new' FROM generate_series(1, 50) n;
      CREATE UNIQUE INDEX jobs_page ON jobs (page) WHERE state = 'Index'; ${ROLE}`,
    sql: "BEGIN; DROP INDEX jobs_page; CREATE UNIQUE INDEX jobs_page ON jobs (page) WHERE state = 'new'; COMMIT",
    told: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'a unique index that is made again without some of the rows',
    setup: `CREATE TABLE jobs (id int PRIMARY KEY, page int NOT NULL, state text); INSERT INTO jobs SELECT n, n, 'new' FROM generate_series(1, 50) n;
      CREATE UNIQUE INDEX jobs_page ON jobs (page); ${ROLE}`,
    sql: 'BEGIN; DROP INDEX jobs_page; CREATE UNIQUE INDEX jobs_page ON jobs (page) WHERE state IS NOT NULL; COMMIT',
    told: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'unique indexes beside others that refuse as much',
    setup: `${ITEMS}CREATE UNIQUE INDEX items_lower ON items (lower(code)); CREATE UNIQUE INDEX items_some ON items (code, note) WHERE id > 9;
      CREATE UNIQUE INDEX items_both ON items (lower(note), id)`,
    sql: `CREATE UNIQUE INDEX CONCURRENTLY items_lower_2 ON items (lower(code)); CREATE UNIQUE INDEX CONCURRENTLY items_all ON items (code);
      DROP INDEX CONCURRENTLY items_lower; DROP INDEX CONCURRENTLY items_some; DROP INDEX CONCURRENTLY items_both`,
    never: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'a unique index on an expression that goes with its column, and one of a renamed column that is built again',
    setup: `${ITEMS}CREATE UNIQUE INDEX items_code ON items (lower(code)); CREATE UNIQUE INDEX items_some ON items (note, id) WHERE id > 9`,
    sql: `ALTER TABLE items DROP COLUMN code; ALTER TABLE items RENAME note TO text; CREATE UNIQUE INDEX items_new ON items (text, id) WHERE id > 9;
      DROP INDEX items_some`,
    never: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'an exclusion constraint that a weaker key replaces',
    setup: `CREATE TABLE stays (id int PRIMARY KEY, during int4range, EXCLUDE USING gist (during WITH &&));
      INSERT INTO stays SELECT n, int4range(n, n + 1) FROM generate_series(1, 50) n; ${ROLE}`,
    sql: 'CREATE UNIQUE INDEX CONCURRENTLY stays_during ON stays (during); ALTER TABLE stays DROP CONSTRAINT stays_during_excl',
    told: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'an exclusion constraint in whose place another one refuses as much, and one of a table that no application writes',
    setup: `CREATE TABLE stays (id int PRIMARY KEY, during int4range, CONSTRAINT one EXCLUDE USING gist (during WITH &&, int4range(id, id, '[]') WITH =));
      INSERT INTO stays SELECT n, int4range(n, n + 1) FROM generate_series(1, 50) n; ${ROLE}
      CREATE TABLE lone (id int PRIMARY KEY, during int4range, CONSTRAINT own EXCLUDE USING gist (during WITH &&)); INSERT INTO lone VALUES (1)`,
    sql: `ALTER TABLE stays ADD EXCLUDE USING gist (during WITH &&); ALTER TABLE stays DROP CONSTRAINT one;
      ALTER TABLE lone DROP CONSTRAINT own`,
    never: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'a function that only its owner may call',
    setup:
      "CREATE FUNCTION alone_:schema(int, text) RETURNS int LANGUAGE sql AS 'SELECT 1'; REVOKE ALL ON FUNCTION alone_:schema FROM PUBLIC",
    sql: 'DROP FUNCTION alone_:schema(int, text)',
  },
  {
    what: 'a function that another role may call',
    setup: `CREATE FUNCTION shared_:schema(int, text) RETURNS int LANGUAGE sql AS 'SELECT 1'; REVOKE ALL ON FUNCTION shared_:schema FROM PUBLIC;
      GRANT EXECUTE ON FUNCTION shared_:schema TO tried_app`,
    sql: 'DROP FUNCTION shared_:schema(int, text)',
    told: 'OBJECT_DROPPED',
  },
  {
    what: 'an index on an expression by which rows of a large table were searched',
    setup: `${MANY}CREATE INDEX many_code ON many (lower(code)); ${SEARCH}`,
    sql: 'DROP INDEX CONCURRENTLY many_code',
    told: 'QUERY_SLOWER',
  },
  {
    what: 'indexes that were not used, or beside another one of their column',
    setup: `${MANY}CREATE INDEX many_lower ON many (lower(code)); CREATE INDEX many_code ON many (code); CREATE INDEX many_both ON many (id, code);
      ${SEARCH.replace('lower(code)', 'code')}`,
    sql: 'DROP INDEX CONCURRENTLY many_lower; DROP INDEX CONCURRENTLY many_code',
  },
] satisfies readonly HazardExample[]);
