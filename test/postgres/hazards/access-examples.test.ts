import { type HazardExample, testHazardExamples } from '../../helpers/hazard-examples.ts';

/** Changes of who may see and do what, as the catalogue shows them, whatever rows there are; each with some that are harmless. */
const ITEMS = 'CREATE TABLE items (id int PRIMARY KEY, code text); ';
const OWN = `${ITEMS}ALTER TABLE items ENABLE ROW LEVEL SECURITY;
  CREATE POLICY own ON items TO tried_app USING (code = current_setting('tried.code', true)); `;
const ANON = `DO $$ BEGIN CREATE ROLE web_anon; EXCEPTION WHEN duplicate_object THEN END $$;
  GRANT USAGE ON SCHEMA :schema TO web_anon; `;
const GROUP = `DO $$ BEGIN CREATE ROLE tried_group; CREATE ROLE tried_grouped LOGIN IN ROLE tried_group; EXCEPTION WHEN duplicate_object THEN END $$;
  GRANT USAGE ON SCHEMA :schema TO tried_group; `;
/** Row security, and tables that a role may read. */
const ON_ALL = (...tables: string[]) =>
  tables
    .map((table) => `ALTER TABLE ${table} ENABLE ROW LEVEL SECURITY; GRANT SELECT ON ${table} TO tried_app; `)
    .join('');
const TENANTS = `CREATE TABLE files (id int PRIMARY KEY, tenant int); CREATE TABLE pages (id int PRIMARY KEY, tenant int); ${ON_ALL('files', 'pages')}
  CREATE POLICY own ON files USING (tenant = current_setting('tried.tenant', true)::int);
  CREATE POLICY own ON pages USING (tenant = current_setting('tried.tenant', true)::int); `;
const THREE =
  'CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); CREATE TABLE c (id int PRIMARY KEY); ';
const CALLED = `GRANT USAGE ON SCHEMA :schema TO tried_app; CREATE FUNCTION due_:schema(int) RETURNS int LANGUAGE sql AS 'SELECT $1';
  REVOKE EXECUTE ON FUNCTION due_:schema FROM PUBLIC; GRANT EXECUTE ON FUNCTION due_:schema TO tried_app; `;
const MAKE_DUE =
  "CREATE FUNCTION due_:schema(int, days int DEFAULT 1) RETURNS int LANGUAGE sql AS 'SELECT $1 + $2'; ";
const MAKE_SECRET =
  "CREATE FUNCTION secret_:schema(int) RETURNS int LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS 'SELECT $1'; ";

testHazardExamples([
  {
    what: 'a policy that lets all rows through beside one of own rows',
    setup: OWN,
    sql: 'CREATE POLICY everything ON items USING (true)',
    told: 'POLICY_CHANGED',
  },
  {
    what: 'a policy that asks for no user beside one that does',
    setup: OWN,
    sql: 'CREATE POLICY coded ON items FOR SELECT TO tried_app USING (code IS NOT NULL)',
    told: 'POLICY_CHANGED',
  },
  {
    what: 'a policy for other roles',
    setup: OWN,
    sql: 'CREATE POLICY everything ON items TO pg_monitor USING (true)',
  },
  {
    what: 'a policy that asks for the user as well',
    setup: OWN,
    sql: "CREATE POLICY shared ON items TO tried_app USING (id::text = current_setting('tried.id', true))",
  },
  {
    what: 'a policy that keeps more rows away',
    setup: OWN,
    sql: 'CREATE POLICY coded ON items AS RESTRICTIVE TO tried_app USING (code IS NOT NULL)',
  },
  {
    what: 'a policy beside one that lets all rows through',
    setup: `${OWN}CREATE POLICY everything ON items USING (true)`,
    sql: 'CREATE POLICY coded ON items FOR SELECT TO tried_app USING (code IS NOT NULL)',
  },
  {
    what: 'a policy whose rows a restrictive one holds together',
    setup: `${OWN}CREATE POLICY tenant ON items AS RESTRICTIVE USING (code = current_setting('tried.code', true))`,
    sql: 'CREATE POLICY everything ON items USING (true)',
  },
  {
    what: 'the first policies of a table',
    setup: ITEMS,
    sql: `ALTER TABLE items ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON items USING (code = current_user);
      CREATE POLICY coded ON items FOR SELECT USING (code IS NULL)`,
  },
  {
    what: 'later tables that everybody may read',
    setup: ITEMS,
    sql: 'ALTER DEFAULT PRIVILEGES IN SCHEMA :schema GRANT SELECT ON TABLES TO PUBLIC',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'later tables that a role may read',
    setup: ITEMS,
    sql: 'ALTER DEFAULT PRIVILEGES IN SCHEMA :schema GRANT SELECT ON TABLES TO tried_app',
  },
  {
    what: 'later functions that everybody may call again',
    setup:
      'DO $$ BEGIN CREATE ROLE tried_maker; EXCEPTION WHEN duplicate_object THEN END $$; ALTER DEFAULT PRIVILEGES FOR ROLE tried_maker REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC',
    sql: 'ALTER DEFAULT PRIVILEGES FOR ROLE tried_maker GRANT EXECUTE ON FUNCTIONS TO PUBLIC',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'a closed function that is dropped and created again',
    setup: `${MAKE_SECRET}REVOKE EXECUTE ON FUNCTION secret_:schema FROM PUBLIC`,
    sql: `DROP FUNCTION secret_:schema; ${MAKE_SECRET}`,
    told: 'FUNCTION_OPENED',
  },
  {
    what: 'a closed function that is created again with another argument',
    setup: `${MAKE_SECRET}REVOKE EXECUTE ON FUNCTION secret_:schema FROM PUBLIC`,
    sql: `DROP FUNCTION secret_:schema; ${MAKE_SECRET.replace('(int)', '(int, text)')}`,
    told: 'FUNCTION_OPENED',
  },
  {
    what: 'a closed function that is created again and closed',
    setup: `${MAKE_SECRET}REVOKE EXECUTE ON FUNCTION secret_:schema FROM PUBLIC`,
    sql: `DROP FUNCTION secret_:schema; ${MAKE_SECRET}REVOKE EXECUTE ON FUNCTION secret_:schema FROM PUBLIC`,
    never: 'FUNCTION_OPENED',
  },
  {
    what: 'a closed function that is replaced',
    setup: `${MAKE_SECRET}REVOKE EXECUTE ON FUNCTION secret_:schema FROM PUBLIC`,
    sql: MAKE_SECRET.replace('CREATE', 'CREATE OR REPLACE').replace('SELECT $1', 'SELECT $1 + 1'),
    never: 'FUNCTION_OPENED',
  },
  {
    what: 'an open function that is dropped and created again',
    setup: MAKE_SECRET,
    sql: `DROP FUNCTION secret_:schema; ${MAKE_SECRET}`,
    never: 'FUNCTION_OPENED',
  },
  {
    what: 'a closed function with the rights of its caller',
    setup: `${MAKE_SECRET.replace('DEFINER', 'INVOKER')}REVOKE EXECUTE ON FUNCTION secret_:schema FROM PUBLIC`,
    sql: `DROP FUNCTION secret_:schema; ${MAKE_SECRET.replace('DEFINER', 'INVOKER')}`,
    never: 'FUNCTION_OPENED',
  },
  {
    what: 'all tables read by requests without a login',
    setup: `${ITEMS}${ANON}`,
    sql: 'GRANT SELECT ON ALL TABLES IN SCHEMA :schema TO web_anon',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'a table written by requests without a login',
    setup: `${ITEMS}${ANON}`,
    sql: 'GRANT SELECT, INSERT ON items TO web_anon',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'a new table that default privileges open to requests without a login',
    setup: `${ANON}ALTER DEFAULT PRIVILEGES IN SCHEMA :schema GRANT ALL ON TABLES TO web_anon`,
    sql: 'CREATE TABLE notes (id int PRIMARY KEY)',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'a new table whose row security is on',
    setup: `${ANON}ALTER DEFAULT PRIVILEGES IN SCHEMA :schema GRANT ALL ON TABLES TO web_anon`,
    sql: 'CREATE TABLE notes (id int PRIMARY KEY); ALTER TABLE notes ENABLE ROW LEVEL SECURITY',
  },
  {
    what: 'a table that is named, and read by requests without a login',
    setup: `${ITEMS}${ANON}`,
    sql: 'GRANT SELECT ON items TO web_anon',
  },
  {
    what: 'a view that shows a role without a login rows past the policies',
    setup: `${OWN}${ANON}`,
    sql: 'CREATE VIEW codes AS SELECT code FROM items; GRANT SELECT ON codes TO web_anon',
    told: 'VIEW_BYPASSES_POLICIES',
  },
  {
    what: 'a view that reads with the rights of a role without a login',
    setup: `${OWN}${ANON}`,
    sql: 'CREATE VIEW codes WITH (security_invoker = true) AS SELECT code FROM items; GRANT SELECT ON codes TO web_anon',
    from: 15,
  },
  {
    what: 'a view that lets a role write rows past the policies',
    setup: OWN,
    sql: 'CREATE VIEW codes AS SELECT * FROM items; GRANT INSERT, UPDATE (code) ON codes TO tried_app',
    told: 'VIEW_BYPASSES_POLICIES',
  },
  {
    what: 'rows that a view may be written through from now on, past the policies',
    setup: `${OWN}CREATE VIEW codes AS SELECT * FROM items; GRANT SELECT ON codes TO tried_app`,
    sql: 'GRANT DELETE ON codes TO tried_app',
    told: 'VIEW_BYPASSES_POLICIES',
  },
  {
    what: 'a view past policies that one of two roles may no longer read',
    setup: `${OWN}${ANON}CREATE VIEW codes AS SELECT * FROM items; GRANT SELECT ON codes TO tried_app, web_anon`,
    sql: 'REVOKE SELECT ON codes FROM web_anon',
    never: 'VIEW_BYPASSES_POLICIES',
  },
  {
    what: 'views whose writes the server does not pass on to the table with policies',
    setup: `${OWN}CREATE TABLE notes (id int PRIMARY KEY);
      CREATE FUNCTION put_:schema() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
    sql: `CREATE VIEW counted AS SELECT count(*) FROM items; GRANT INSERT ON counted TO tried_app;
      CREATE VIEW by_rule AS SELECT * FROM items; GRANT INSERT ON by_rule TO tried_app;
      CREATE RULE nothing AS ON INSERT TO by_rule DO INSTEAD NOTHING;
      CREATE VIEW by_trigger AS SELECT * FROM items; GRANT INSERT ON by_trigger TO tried_app;
      CREATE TRIGGER put INSTEAD OF INSERT ON by_trigger FOR EACH ROW EXECUTE FUNCTION put_:schema();
      CREATE VIEW beside AS SELECT * FROM notes WHERE EXISTS (SELECT FROM items i WHERE i.id = notes.id);
      GRANT INSERT ON beside TO tried_app`,
  },
  {
    what: 'a view of a table whose policy lets all rows through',
    setup: `${ITEMS}ALTER TABLE items ENABLE ROW LEVEL SECURITY; CREATE POLICY everything ON items USING (true)`,
    sql: 'CREATE VIEW codes AS SELECT code FROM items; GRANT SELECT, UPDATE ON codes TO tried_app',
  },
  {
    what: 'a view of a table whose policy lets all rows be read, not written',
    setup: `${ITEMS}ALTER TABLE items ENABLE ROW LEVEL SECURITY; CREATE POLICY everything ON items FOR SELECT USING (true)`,
    sql: 'CREATE VIEW codes AS SELECT code FROM items; GRANT SELECT, UPDATE ON codes TO tried_app',
    told: 'VIEW_BYPASSES_POLICIES',
  },
  {
    what: 'a view that requests without a login may write through',
    setup: `${ITEMS}${ANON}`,
    sql: 'CREATE VIEW codes AS SELECT * FROM items; GRANT SELECT, INSERT ON codes TO web_anon',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'a view that requests without a login may read, or could write with privileges of their own',
    setup: `${ITEMS}${ANON}`,
    sql: `CREATE VIEW codes AS SELECT * FROM items; GRANT SELECT ON codes TO web_anon;
      CREATE VIEW counted AS SELECT count(*) FROM items; GRANT ALL ON counted TO web_anon;
      CREATE VIEW own WITH (security_invoker = true) AS SELECT * FROM items; GRANT ALL ON own TO web_anon`,
    from: 15,
  },
  {
    what: 'later tables that requests without a login may read',
    setup: `${ITEMS}${ANON}`,
    sql: 'ALTER DEFAULT PRIVILEGES IN SCHEMA :schema GRANT SELECT ON TABLES TO web_anon',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'later sequences that requests without a login may use',
    setup: `${ITEMS}${ANON}`,
    sql: 'ALTER DEFAULT PRIVILEGES IN SCHEMA :schema GRANT USAGE ON SEQUENCES TO web_anon',
  },
  {
    what: 'a new function of its owner that requests without a login may call',
    setup: `${ITEMS}${ANON}`,
    sql: MAKE_SECRET,
  },
  {
    what: 'a policy that is altered to let all rows through',
    setup: OWN,
    sql: 'ALTER POLICY own ON items USING (true)',
    told: 'POLICY_CHANGED',
  },
  {
    what: 'a policy that is made again, and no longer asks for the session',
    setup: OWN,
    sql: "DROP POLICY own ON items; CREATE POLICY own ON items TO tried_app USING (code LIKE 'a%')",
    told: 'POLICY_CHANGED',
  },
  {
    what: 'a policy that lets all new rows through',
    setup: OWN,
    sql: 'ALTER POLICY own ON items WITH CHECK (true)',
    told: 'POLICY_CHANGED',
  },
  {
    what: 'a policy of all rows that is for PUBLIC now',
    setup: `${ITEMS}ALTER TABLE items ENABLE ROW LEVEL SECURITY; CREATE POLICY everything ON items TO tried_app USING (true)`,
    sql: 'ALTER POLICY everything ON items TO PUBLIC',
    told: 'POLICY_CHANGED',
  },
  {
    what: 'a restrictive policy that lets all rows through',
    setup: `${OWN}CREATE POLICY tenant ON items AS RESTRICTIVE USING (code = current_setting('tried.code', true))`,
    sql: 'ALTER POLICY tenant ON items USING (true)',
    told: 'POLICY_CHANGED',
  },
  {
    what: 'policies that ask for the session in another way, or for it now',
    setup: `${OWN}CREATE TABLE notes (id int PRIMARY KEY, code text); ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
      CREATE POLICY own ON notes TO tried_app USING (true)`,
    sql: `ALTER POLICY own ON items USING (code = current_setting('tried.code', true) OR code = 'all');
      ALTER POLICY own ON notes USING (code = current_user)`,
  },
  {
    what: 'a policy that never asked for the session, in spite of a call',
    setup: `${ITEMS}ALTER TABLE items ENABLE ROW LEVEL SECURITY; CREATE POLICY coded ON items TO tried_app USING (lower(code) = 'a')`,
    sql: "ALTER POLICY coded ON items USING (code = 'a')",
  },
  {
    what: 'an altered policy beside one that lets all rows through',
    setup: `${OWN}CREATE POLICY everything ON items USING (true)`,
    sql: 'ALTER POLICY own ON items USING (true)',
  },
  {
    what: 'an altered policy whose rows a restrictive one holds together',
    setup: `${OWN}CREATE POLICY tenant ON items AS RESTRICTIVE USING (code = current_setting('tried.code', true))`,
    sql: 'ALTER POLICY own ON items USING (true)',
  },
  {
    what: 'a policy of all rows beside a restrictive one that asks for no user',
    setup: `${OWN}CREATE POLICY coded ON items AS RESTRICTIVE USING (code IS NOT NULL)`,
    sql: 'CREATE POLICY everything ON items USING (true)',
    told: 'POLICY_CHANGED',
  },
  {
    what: 'an altered policy of a table whose row security is off',
    setup: `${ITEMS}CREATE POLICY own ON items TO tried_app USING (code = current_user)`,
    sql: 'ALTER POLICY own ON items USING (true)',
    never: 'POLICY_CHANGED',
  },
  {
    what: 'all tables, of which one had been left out of the privileges of the role',
    setup: `${THREE}GRANT SELECT ON a, b TO tried_app`,
    sql: 'GRANT SELECT ON ALL TABLES IN SCHEMA :schema TO tried_app',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'all tables to a role that might do something else with most of them',
    setup: `${THREE}GRANT SELECT ON a, b TO tried_app`,
    sql: 'GRANT INSERT ON ALL TABLES IN SCHEMA :schema TO tried_app',
  },
  {
    what: 'all tables to a role that might read few of them, or lacked only a partition and a table of the migration tool',
    setup: `${THREE}CREATE TABLE schema_migrations (version text); CREATE TABLE e (id int) PARTITION BY LIST (id);
      CREATE TABLE e_1 PARTITION OF e FOR VALUES IN (1); GRANT SELECT ON a, b, c, e TO tried_app; GRANT SELECT ON a TO pg_monitor`,
    sql: `CREATE TABLE d (id int PRIMARY KEY); GRANT SELECT ON ALL TABLES IN SCHEMA :schema TO tried_app;
      GRANT SELECT ON ALL TABLES IN SCHEMA :schema TO pg_monitor`,
  },
  {
    what: 'default privileges of a role that makes none of the tables',
    setup: `${THREE}ALTER TABLE a OWNER TO tried_app; ALTER TABLE b OWNER TO tried_app; ALTER TABLE c OWNER TO tried_app`,
    sql: 'ALTER DEFAULT PRIVILEGES IN SCHEMA :schema GRANT SELECT ON TABLES TO pg_monitor',
    told: 'WITHOUT_EFFECT',
  },
  {
    what: 'default privileges of a role that makes a table, or of few tables, or for the role that makes them',
    setup: `${THREE}ALTER TABLE a OWNER TO tried_app; ALTER TABLE b OWNER TO tried_app; ALTER TABLE c OWNER TO tried_app;
      CREATE SCHEMA :schemaother; CREATE TABLE :schemaother.a (id int); ALTER TABLE :schemaother.a OWNER TO tried_app`,
    sql: `ALTER DEFAULT PRIVILEGES IN SCHEMA :schemaother GRANT SELECT ON TABLES TO pg_monitor;
      ALTER DEFAULT PRIVILEGES FOR ROLE tried_app IN SCHEMA :schema GRANT SELECT ON TABLES TO pg_monitor;
      CREATE TABLE d (id int PRIMARY KEY); ALTER DEFAULT PRIVILEGES IN SCHEMA :schema GRANT INSERT ON TABLES TO pg_monitor`,
    never: 'WITHOUT_EFFECT',
  },
  {
    what: 'a materialized view past policies for a role that they are not for, or that has all rows as a replica',
    setup: `DO $$ BEGIN CREATE ROLE tried_owner; CREATE ROLE tried_member LOGIN IN ROLE tried_owner; CREATE ROLE tried_replica LOGIN REPLICATION;
      EXCEPTION WHEN duplicate_object THEN END $$; ${OWN}ALTER TABLE items OWNER TO tried_owner`,
    sql: 'CREATE MATERIALIZED VIEW codes AS SELECT code FROM items; GRANT SELECT ON codes TO tried_member, tried_replica',
  },
  {
    what: 'a materialized view that shows a role rows past the policies',
    setup: OWN,
    sql: 'CREATE MATERIALIZED VIEW codes AS SELECT code FROM items; GRANT SELECT ON codes TO tried_app',
    told: 'VIEW_BYPASSES_POLICIES',
  },
  {
    what: 'a function that is made again with another argument, and without the grant of its role',
    setup: CALLED,
    sql: `DROP FUNCTION due_:schema(int); ${MAKE_DUE}REVOKE EXECUTE ON FUNCTION due_:schema FROM PUBLIC`,
    told: 'GRANTS_NOT_RESTORED',
  },
  {
    what: 'a function that is made again with another result, by a role whose functions are closed',
    setup: `${CALLED}DO $$ BEGIN CREATE ROLE tried_closed; EXCEPTION WHEN duplicate_object THEN END $$;
      ALTER DEFAULT PRIVILEGES FOR ROLE tried_closed REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; GRANT USAGE, CREATE ON SCHEMA :schema TO tried_closed`,
    sql: `DROP FUNCTION due_:schema(int); SET ROLE tried_closed;
      CREATE FUNCTION :schema.due_:schema(int) RETURNS bigint LANGUAGE sql AS 'SELECT $1::bigint'; RESET ROLE`,
    told: 'GRANTS_NOT_RESTORED',
  },
  {
    what: 'a function that is made again, and granted again or open to all',
    setup: `${CALLED}CREATE FUNCTION open_:schema(int) RETURNS int LANGUAGE sql AS 'SELECT $1'; GRANT EXECUTE ON FUNCTION open_:schema TO tried_app`,
    sql: `DROP FUNCTION due_:schema(int); ${MAKE_DUE}REVOKE EXECUTE ON FUNCTION due_:schema FROM PUBLIC; GRANT EXECUTE ON FUNCTION due_:schema TO tried_app;
      DROP FUNCTION open_:schema(int); CREATE FUNCTION open_:schema(int, text) RETURNS int LANGUAGE sql AS 'SELECT $1'`,
    never: 'GRANTS_NOT_RESTORED',
  },
  {
    what: 'functions that are dropped, taken from their role, or closed for all but another role',
    setup: `${CALLED}${ANON}CREATE FUNCTION gone_:schema(int) RETURNS int LANGUAGE sql AS 'SELECT $1'; GRANT EXECUTE ON FUNCTION gone_:schema TO tried_app;
      ${ITEMS}GRANT SELECT ON items TO tried_app; CREATE FUNCTION shut_:schema(int) RETURNS int LANGUAGE sql AS 'SELECT $1'`,
    sql: `DROP FUNCTION gone_:schema; DROP FUNCTION due_:schema(int); ${MAKE_DUE}REVOKE EXECUTE ON FUNCTION due_:schema FROM PUBLIC, tried_app;
      DROP FUNCTION shut_:schema; CREATE FUNCTION shut_:schema(text) RETURNS text LANGUAGE sql AS 'SELECT $1';
      REVOKE EXECUTE ON FUNCTION shut_:schema FROM PUBLIC; GRANT EXECUTE ON FUNCTION shut_:schema TO web_anon`,
    never: 'GRANTS_NOT_RESTORED',
  },
  {
    what: 'a function that writes as its owner for every role',
    setup: `${ITEMS}GRANT USAGE ON SCHEMA :schema TO tried_app; GRANT SELECT ON items TO tried_app`,
    sql: `CREATE FUNCTION note_:schema(int) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = :schema, pg_temp AS
      'UPDATE items SET code = NULL WHERE id = $1'`,
    told: 'FUNCTION_OPENED',
  },
  {
    what: 'a function of all roles that is replaced, and executes a text as its owner',
    setup: `GRANT USAGE ON SCHEMA :schema TO tried_app; ${MAKE_SECRET}`,
    sql: `CREATE OR REPLACE FUNCTION secret_:schema(int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS
      'BEGIN EXECUTE format(''DELETE FROM %I'', $1::text); RETURN 1; END'`,
    told: 'FUNCTION_OPENED',
  },
  {
    what: 'functions of their owner that read, are closed, are triggers, or write what all roles may write',
    setup: `${ITEMS}GRANT USAGE ON SCHEMA :schema TO tried_app; CREATE TABLE events (id int); GRANT INSERT ON events TO tried_app, PUBLIC;
      CREATE FUNCTION old_:schema() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = :schema AS 'DELETE FROM items'; GRANT DELETE ON items TO tried_app`,
    sql: `REVOKE DELETE ON items FROM tried_app;
      CREATE FUNCTION read_:schema() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = :schema AS
      'BEGIN -- It does not DELETE FROM items.
        EXECUTE ''SELECT 1''; RETURN (SELECT count(*) FROM items); END';
      CREATE FUNCTION shut_:schema() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = :schema AS 'DELETE FROM items';
      REVOKE EXECUTE ON FUNCTION shut_:schema FROM PUBLIC;
      CREATE FUNCTION put_:schema() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :schema AS 'BEGIN DELETE FROM items; RETURN NULL; END';
      CREATE FUNCTION event_:schema() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = :schema AS 'INSERT INTO events VALUES (1)'`,
    never: 'FUNCTION_OPENED',
  },
  {
    what: 'a column that a replaced view shows to a role which may read others of the table',
    setup: `${ITEMS}CREATE VIEW codes_:schema AS SELECT id FROM items; GRANT SELECT ON codes_:schema TO tried_app; GRANT SELECT (id) ON items TO tried_app`,
    sql: 'CREATE OR REPLACE VIEW codes_:schema AS SELECT id, code AS label FROM items',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'columns that replaced views use, show to roles which may read them, or show as those roles',
    setup: `CREATE TABLE items (id int PRIMARY KEY, code text, note text); GRANT SELECT (id, note) ON items TO tried_app;
      CREATE VIEW ids_:schema AS SELECT id FROM items; CREATE VIEW more_:schema AS SELECT id FROM items; CREATE VIEW later_:schema AS SELECT id, code FROM items;
      CREATE TABLE closed (id int, code text); CREATE VIEW outside_:schema AS SELECT id FROM closed;
      GRANT SELECT ON ids_:schema, more_:schema, outside_:schema TO tried_app`,
    sql: `CREATE OR REPLACE VIEW ids_:schema AS SELECT id FROM items WHERE code IS NOT NULL ORDER BY code;
      CREATE OR REPLACE VIEW more_:schema AS SELECT id, note FROM items; GRANT SELECT ON later_:schema TO tried_app;
      CREATE OR REPLACE VIEW outside_:schema AS SELECT id, code FROM closed`,
    never: 'ACCESS_WIDENED',
  },
  {
    what: 'a view that is replaced by one which reads with the rights of its reader',
    setup: `${ITEMS}CREATE VIEW codes_:schema AS SELECT id FROM items; GRANT SELECT ON codes_:schema TO tried_app; GRANT SELECT (id) ON items TO tried_app`,
    sql: 'CREATE OR REPLACE VIEW codes_:schema WITH (security_invoker = true) AS SELECT id, code FROM items',
    from: 15,
    never: 'ACCESS_WIDENED',
  },
  {
    what: 'a new view that a role may not read, unlike the tables',
    setup: `${THREE}GRANT SELECT, INSERT ON a, b, c TO tried_app`,
    sql: 'CREATE VIEW counted AS SELECT count(*) FROM a',
    told: 'NEW_OBJECT_NOT_GRANTED',
  },
  {
    what: 'new views that cannot be written, or are read, without the privileges to write them',
    setup: `${THREE}GRANT SELECT, INSERT, UPDATE, DELETE ON a, b, c TO tried_app`,
    sql: `CREATE VIEW counted AS SELECT count(*) FROM a; CREATE VIEW ids AS SELECT id FROM a; CREATE MATERIALIZED VIEW stored AS SELECT id FROM a;
      GRANT SELECT ON counted, ids, stored TO tried_app`,
  },
  {
    what: 'a view that is dropped and made again without the privileges of a role',
    setup: `${THREE}CREATE VIEW ids AS SELECT id FROM a; GRANT SELECT ON ids TO tried_app`,
    sql: 'DROP VIEW ids; CREATE VIEW ids AS SELECT id, 1 AS version FROM a',
    told: 'GRANTS_NOT_RESTORED',
  },
  {
    what: 'a table that is made again, with fewer privileges of a role on most of the schema',
    setup: `${THREE}CREATE TABLE d (id int PRIMARY KEY); GRANT SELECT, INSERT ON a, b, c, d TO tried_app`,
    sql: 'CREATE TABLE e (id bigint PRIMARY KEY); DROP TABLE d; ALTER TABLE e RENAME TO d; GRANT SELECT ON d TO tried_app',
    told: 'GRANTS_NOT_RESTORED',
  },
  {
    what: 'views of another role that are replaced or made again, while a role may use the rest of the schema',
    setup: `${THREE}CREATE VIEW ids AS SELECT id FROM a; CREATE VIEW more AS SELECT id FROM b; CREATE MATERIALIZED VIEW stored AS SELECT id FROM c;
      CREATE VIEW closed AS SELECT id FROM c; CREATE TABLE d (id int); CREATE TABLE e (id int); CREATE TABLE f (id int); CREATE TABLE g (id int);
      GRANT SELECT ON ALL TABLES IN SCHEMA :schema TO tried_app; GRANT SELECT ON ids, more, stored TO pg_monitor; REVOKE SELECT ON ids, more, stored, closed FROM tried_app`,
    sql: `CREATE OR REPLACE VIEW ids AS SELECT id, 1 AS version FROM a; DROP VIEW more; CREATE VIEW more AS SELECT id, 1 AS version FROM b;
      DROP MATERIALIZED VIEW stored; CREATE MATERIALIZED VIEW stored AS SELECT id, 1 AS version FROM c; GRANT SELECT ON more, stored TO pg_monitor;
      DROP VIEW closed; CREATE VIEW closed AS SELECT id, 1 AS version FROM c`,
    never: 'NEW_OBJECT_NOT_GRANTED',
  },
  {
    what: 'a view that is made again, and read by all, or closed to its role',
    setup: `${THREE}CREATE VIEW ids AS SELECT id FROM a; CREATE VIEW more AS SELECT id FROM b; GRANT SELECT ON ids, more TO tried_app`,
    sql: `DROP VIEW ids; CREATE VIEW ids AS SELECT id, 1 AS version FROM a; GRANT SELECT ON ids TO PUBLIC;
      DROP VIEW more; CREATE VIEW more AS SELECT id, 1 AS version FROM b; REVOKE ALL ON more FROM tried_app`,
    never: 'GRANTS_NOT_RESTORED',
  },
  {
    what: 'a new table that a role may insert into, and whose sequence it may not use',
    setup: 'GRANT USAGE ON SCHEMA :schema TO tried_app',
    sql: 'CREATE TABLE notes (id serial PRIMARY KEY, body text); GRANT SELECT, INSERT ON notes TO tried_app',
    told: 'SEQUENCE_NOT_GRANTED',
  },
  {
    what: 'a new table of which a role that others belong to may only read the sequence',
    setup: GROUP,
    sql: `CREATE TABLE notes (id serial PRIMARY KEY, body text); GRANT SELECT, INSERT ON notes TO tried_group;
      GRANT SELECT ON SEQUENCE notes_id_seq TO tried_group, tried_grouped`,
    told: 'SEQUENCE_NOT_GRANTED',
  },
  {
    what: 'a new column that takes values of a sequence which a role that inserts may not use',
    setup: `${ITEMS}INSERT INTO items VALUES (1, 'a'); GRANT SELECT, INSERT ON items TO tried_app`,
    sql: 'ALTER TABLE items ADD COLUMN place serial',
    told: 'SEQUENCE_NOT_GRANTED',
  },
  {
    what: 'new tables whose sequence a role may use, by a grant to itself, to all, to its group, or by default privileges',
    setup: `${GROUP}ALTER DEFAULT PRIVILEGES IN SCHEMA :schema GRANT USAGE ON SEQUENCES TO tried_app; CREATE SEQUENCE shared; GRANT USAGE ON SEQUENCE shared TO PUBLIC`,
    sql: `CREATE TABLE a (id serial PRIMARY KEY, body text); GRANT INSERT ON a TO tried_app;
      CREATE TABLE b (id int PRIMARY KEY DEFAULT nextval('shared')); GRANT INSERT ON b TO tried_group;
      CREATE TABLE c (id serial PRIMARY KEY, body text); GRANT INSERT ON c TO tried_grouped; GRANT UPDATE ON SEQUENCE c_id_seq TO tried_group;
      CREATE TABLE d (id serial PRIMARY KEY, place serial); ALTER TABLE d OWNER TO tried_group; GRANT INSERT ON d TO tried_app`,
    never: 'SEQUENCE_NOT_GRANTED',
  },
  {
    what: 'an identity, a table that a role only reads, one that it fills itself, a partition, and the sequence of a table that is no longer inserted into',
    setup: `CREATE TABLE old (id serial PRIMARY KEY); CREATE TABLE e (id serial, kind int) PARTITION BY LIST (kind); GRANT INSERT ON old, e TO tried_app`,
    sql: `CREATE TABLE a (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY); GRANT INSERT ON a TO tried_app;
      CREATE TABLE b (id serial PRIMARY KEY); GRANT SELECT, UPDATE, DELETE ON b TO tried_app; CREATE TABLE c (id int PRIMARY KEY); GRANT INSERT ON c TO tried_app;
      CREATE TABLE e_1 PARTITION OF e FOR VALUES IN (1); GRANT INSERT ON e_1 TO tried_app; REVOKE INSERT ON old FROM tried_app; ALTER TABLE old ADD COLUMN place serial`,
    never: 'SEQUENCE_NOT_GRANTED',
  },
  {
    what: 'a new table that shows a role all rows, by whose column policies keep rows of others from it',
    setup: TENANTS,
    sql: 'CREATE TABLE notes (id int PRIMARY KEY, tenant int); GRANT SELECT ON notes TO tried_app',
    told: 'NEW_TABLE_WITHOUT_POLICIES',
  },
  {
    what: 'a new table with a row for each tenant, that a role reads in part, beside a table without row security which it may not read',
    setup: `${TENANTS}CREATE TABLE tenants (id int PRIMARY KEY); CREATE TABLE log (tenant int); CREATE VIEW seen AS SELECT 1 AS tenant; GRANT SELECT ON seen TO tried_app`,
    sql: `CREATE TABLE settings (tenant int PRIMARY KEY REFERENCES tenants, theme text, secret text);
      ALTER DEFAULT PRIVILEGES IN SCHEMA :schema GRANT SELECT ON TABLES TO tried_app; GRANT SELECT (tenant, theme) ON settings TO tried_app`,
    told: 'NEW_TABLE_WITHOUT_POLICIES',
  },
  {
    what: 'new tables with row security, without the column, with it as their key, or that nobody else reads',
    setup: TENANTS,
    sql: `CREATE TABLE notes (id int PRIMARY KEY, tenant int); GRANT SELECT ON notes TO tried_app; ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
      CREATE POLICY own ON notes USING (tenant = current_setting('tried.tenant', true)::int);
      CREATE TABLE countries (id int PRIMARY KEY); CREATE TABLE names (tenant int PRIMARY KEY); GRANT SELECT ON countries, names TO tried_app;
      CREATE TABLE closed (id int PRIMARY KEY, tenant int); GRANT INSERT ON closed TO tried_app; CREATE VIEW seen AS SELECT 1 AS tenant; GRANT SELECT ON seen TO tried_app`,
    never: 'NEW_TABLE_WITHOUT_POLICIES',
  },
  {
    what: 'a new table beside one table with policies, and others whose policies do not use the column',
    setup: `CREATE TABLE files (id int, tenant int); CREATE TABLE pages (id int, tenant int); CREATE TABLE more (id int, tenant int); ${ON_ALL('files', 'pages', 'more')}
      CREATE POLICY own ON files USING (tenant = current_setting('tried.tenant', true)::int);
      CREATE POLICY own ON pages USING (id = current_setting('tried.id', true)::int); CREATE POLICY own ON more USING (EXISTS (SELECT FROM files f WHERE f.tenant = more.id))`,
    sql: 'CREATE TABLE notes (tenant int); GRANT SELECT ON notes TO tried_app',
    never: 'NEW_TABLE_WITHOUT_POLICIES',
  },
  {
    what: 'a new table like one that the role may read without row security',
    setup: `${TENANTS}CREATE TABLE invoices (id int PRIMARY KEY, tenant int); GRANT SELECT ON invoices TO tried_app`,
    sql: 'CREATE TABLE notes (id int PRIMARY KEY, tenant int); GRANT SELECT ON notes TO tried_app',
    never: 'NEW_TABLE_WITHOUT_POLICIES',
  },
  {
    what: 'a new table for roles that see all rows of the others, that own it, or that the policies are not for',
    setup: `${TENANTS}DO $$ BEGIN CREATE ROLE tried_all LOGIN BYPASSRLS; CREATE ROLE tried_reports LOGIN; CREATE ROLE tried_new LOGIN; EXCEPTION WHEN duplicate_object THEN END $$;
      CREATE POLICY reports ON files FOR SELECT TO tried_reports USING (true); CREATE POLICY reports ON pages FOR SELECT TO tried_reports USING (true);
      GRANT SELECT ON files, pages TO tried_all, tried_reports`,
    sql: `CREATE TABLE notes (id int PRIMARY KEY, tenant int); GRANT SELECT ON notes TO tried_all, tried_reports, tried_new;
      CREATE TABLE own (id int PRIMARY KEY, tenant int); ALTER TABLE own OWNER TO tried_app`,
    never: 'NEW_TABLE_WITHOUT_POLICIES',
  },
  {
    what: 'a new partition of a table with policies',
    setup: `${TENANTS}CREATE TABLE e (id int, tenant int) PARTITION BY LIST (id); ${ON_ALL('e')}CREATE POLICY own ON e USING (tenant = current_setting('tried.tenant', true)::int)`,
    sql: 'CREATE TABLE e_1 PARTITION OF e FOR VALUES IN (1); GRANT SELECT ON e_1 TO tried_app',
    never: 'NEW_TABLE_WITHOUT_POLICIES',
  },
  {
    what: 'a table that is made again without row security, as it was before',
    setup: `${TENANTS}CREATE TABLE log (tenant int); GRANT SELECT ON log TO tried_app`,
    sql: 'DROP TABLE log; CREATE TABLE log (tenant int, at date); GRANT SELECT ON log TO tried_app',
    never: 'NEW_TABLE_WITHOUT_POLICIES',
  },
  {
    what: 'all tables read by another role',
    setup: ITEMS,
    sql: 'GRANT SELECT ON ALL TABLES IN SCHEMA :schema TO tried_app',
  },
] satisfies readonly HazardExample[]);
