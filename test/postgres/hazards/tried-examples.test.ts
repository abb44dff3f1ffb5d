import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { rehearse } from '../../../src/index.ts';
import type { Report } from '../../../src/model/report.ts';
import { plainEnvironment } from '../../helpers/cli.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { serverUrl, useOwnServers, VERSIONS } from '../../helpers/servers.ts';

/**
 * Changes after which something fails or is wrong although each statement succeeds, found by what is tried on the clone. All are
 * sessions of one command, each in a schema of its own with few tables, so that the probes have time for each.
 */
const COMMAND = fileURLToPath(new URL('../../helpers/commands/run-sql-files.mjs', import.meta.url));

interface Example {
  readonly what: string;
  readonly setup: string;
  readonly sql: string;
  /** A code that is told as a warning or an error; missing: no warning is told. */
  readonly told?: string;
  /** A code that is not told; others may be. */
  readonly never?: string;
  /** Major version of PostgreSQL from which it can be met. */
  readonly from?: number;
}

const ITEMS = `CREATE TABLE items (id int PRIMARY KEY, code text, note text);
  INSERT INTO items SELECT n, 'C' || n, 'note' FROM generate_series(1, 2000) n; `;
const THINGS = 'CREATE TABLE things (id int PRIMARY KEY, settings jsonb); ';
const ROLE =
  'GRANT ALL ON ALL TABLES IN SCHEMA :schema TO tried_app; GRANT USAGE ON SCHEMA :schema TO tried_app; ';

const EXAMPLES: readonly Example[] = [
  {
    what: 'a sequence that begins again',
    setup:
      "CREATE TABLE items (id serial PRIMARY KEY, code text); INSERT INTO items (code) SELECT 'x' FROM generate_series(1, 2000)",
    sql: 'ALTER SEQUENCE items_id_seq RESTART',
    told: 'SEQUENCE_BEHIND',
  },
  {
    what: 'a sequence that is set below the greatest id',
    setup:
      "CREATE TABLE items (id serial PRIMARY KEY, code text); INSERT INTO items (code) SELECT 'x' FROM generate_series(1, 2000)",
    sql: "SELECT setval('items_id_seq', 1000)",
    told: 'SEQUENCE_BEHIND',
  },
  {
    what: 'a table that is renamed, whose sequence was behind before',
    setup: `CREATE TABLE items (id serial PRIMARY KEY); INSERT INTO items SELECT generate_series(1, 2000)`,
    sql: 'ALTER TABLE items RENAME TO things',
    never: 'SEQUENCE_BEHIND',
  },
  {
    what: 'another column under the name of one, which has another type',
    setup: `${ITEMS}ALTER TABLE items ADD CONSTRAINT items_code UNIQUE (code)`,
    sql: 'ALTER TABLE items RENAME COLUMN code TO label; ALTER TABLE items ADD COLUMN code uuid UNIQUE DEFAULT gen_random_uuid()',
    told: 'COLUMN_RENAMED',
    never: 'ACCEPTS_LESS',
  },
  {
    what: 'a unique index that ON CONFLICT needs',
    setup: `${ITEMS}CREATE UNIQUE INDEX items_code ON items (code)`,
    sql: 'DROP INDEX items_code',
    told: 'ACCEPTS_LESS',
  },
  {
    what: 'a unique constraint that ON CONFLICT needs',
    setup: `${ITEMS}ALTER TABLE items ADD CONSTRAINT items_code UNIQUE (code)`,
    sql: 'ALTER TABLE items DROP CONSTRAINT items_code',
    told: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'a filter of a publication by a column that is no identity',
    setup: `${ITEMS}CREATE PUBLICATION tried FOR TABLE items`,
    sql: "ALTER PUBLICATION tried SET TABLE items WHERE (note = 'note')",
    told: 'ACCEPTS_LESS',
    from: 15,
  },
  {
    what: 'a child that leaves its parent',
    setup: `${ITEMS}CREATE TABLE more () INHERITS (items); INSERT INTO more SELECT n, 'M' FROM generate_series(3001, 4000) n`,
    sql: 'ALTER TABLE more NO INHERIT items',
    told: 'READS_DIFFER',
  },
  {
    what: 'a column that stores no large value any more',
    setup: `CREATE TABLE items (id int PRIMARY KEY, note text); INSERT INTO items VALUES (1, (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 400) n))`,
    sql: 'ALTER TABLE items ALTER note SET STORAGE PLAIN',
    told: 'ACCEPTS_LESS',
  },
  {
    what: 'an index on a function that has another meaning now',
    setup: `${ITEMS}CREATE FUNCTION plain(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)'; CREATE INDEX items_plain ON items (plain(code))`,
    sql: "CREATE OR REPLACE FUNCTION plain(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT upper($1)'",
    told: 'READS_DIFFER',
  },
  {
    what: 'a second key of an index whose function has another meaning now',
    setup: `${ITEMS}CREATE FUNCTION plain(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)'; CREATE INDEX items_plain ON items (note, plain(code))`,
    sql: "CREATE OR REPLACE FUNCTION plain(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT upper($1)'",
    told: 'READS_DIFFER',
  },
  {
    what: 'a partial index whose function has another meaning now',
    setup: `${ITEMS}CREATE FUNCTION open(text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 < ''C2''; END'; CREATE INDEX items_open ON items (id) WHERE open(code)`,
    sql: "CREATE OR REPLACE FUNCTION open(text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 < ''C3''; END'",
    told: 'READS_DIFFER',
  },
  {
    what: 'a partial index that is built again after its function was changed',
    setup: `${ITEMS}CREATE FUNCTION open(text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 < ''C2''; END'; CREATE INDEX items_open ON items (id) WHERE open(code)`,
    sql: "CREATE OR REPLACE FUNCTION open(text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 < ''C3''; END'; DROP INDEX items_open; CREATE INDEX items_open ON items (id) WHERE open(code)",
    never: 'READS_DIFFER',
  },
  {
    what: 'an identity that refuses explicit ids',
    setup:
      "CREATE TABLE items (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, code text); INSERT INTO items (code) VALUES ('x')",
    sql: 'ALTER TABLE items ALTER id SET GENERATED ALWAYS',
    told: 'ACCEPTS_LESS',
  },
  {
    what: 'a required column whose default is dropped again',
    setup: ITEMS,
    sql: 'ALTER TABLE items ADD amount int NOT NULL DEFAULT 0; ALTER TABLE items ALTER amount DROP DEFAULT',
    told: 'NEW_COLUMN_REQUIRED',
  },
  {
    what: 'row security that hides all rows',
    setup: `${ITEMS}${ROLE}`,
    sql: 'ALTER TABLE items ENABLE ROW LEVEL SECURITY',
    told: 'POLICY_CHANGED',
  },
  {
    what: 'a policy that is dropped',
    setup: `${ITEMS}${ROLE}ALTER TABLE items ENABLE ROW LEVEL SECURITY; CREATE POLICY all_rows ON items USING (true)`,
    sql: 'DROP POLICY all_rows ON items',
    told: 'POLICY_CHANGED',
  },
  {
    what: 'a policy for fewer rows',
    setup: `${ITEMS}${ROLE}ALTER TABLE items ENABLE ROW LEVEL SECURITY; CREATE POLICY all_rows ON items USING (true)`,
    sql: 'ALTER POLICY all_rows ON items USING (id < 10)',
    told: 'POLICY_CHANGED',
  },
  {
    what: 'row security that is taken away',
    setup: `${ITEMS}${ROLE}ALTER TABLE items ENABLE ROW LEVEL SECURITY; CREATE POLICY few_rows ON items USING (id < 10)`,
    sql: 'ALTER TABLE items DISABLE ROW LEVEL SECURITY',
    told: 'POLICY_CHANGED',
  },
  {
    what: 'a setting of the database that names mean something else by',
    setup: '',
    sql: "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = :schema', current_database()); END $$",
    told: 'DATABASE_SETTING_CHANGED',
  },
  {
    what: 'a foreign key that deletes what it kept',
    setup: `${ITEMS}CREATE TABLE parts (id int PRIMARY KEY, item int CONSTRAINT parts_item REFERENCES items); INSERT INTO parts SELECT n, n FROM generate_series(1, 2000) n`,
    sql: 'BEGIN; ALTER TABLE parts DROP CONSTRAINT parts_item; ALTER TABLE parts ADD CONSTRAINT parts_item FOREIGN KEY (item) REFERENCES items ON DELETE CASCADE; COMMIT',
    told: 'CONSTRAINT_CHANGED',
  },
  {
    what: 'a CHECK that accepts more under its name',
    setup: `${ITEMS}ALTER TABLE items ADD CONSTRAINT positive CHECK (id > 0)`,
    sql: 'BEGIN; ALTER TABLE items DROP CONSTRAINT positive; ALTER TABLE items ADD CONSTRAINT positive CHECK (id > -100); COMMIT',
    told: 'ACCEPTS_MORE',
  },
  {
    what: 'a renamed table behind a view of its old name that nobody may use',
    setup: `${ITEMS}${ROLE}`,
    sql: 'BEGIN; ALTER TABLE items RENAME TO things; CREATE VIEW items AS SELECT * FROM things; COMMIT',
    told: 'ACCEPTS_LESS',
  },
  {
    what: 'a renamed table behind a view of its old name',
    setup: `${ITEMS}${ROLE}`,
    sql: 'BEGIN; ALTER TABLE items RENAME TO things; CREATE VIEW items AS SELECT * FROM things; GRANT ALL ON items TO tried_app; COMMIT',
  },
  {
    what: 'a table that refers to others, and is dropped',
    setup: `${ITEMS}CREATE TABLE parts (item int REFERENCES items)`,
    sql: 'DROP TABLE parts',
  },
  {
    what: 'a child whose parent the application reads',
    setup: `${ITEMS}CREATE TABLE a (id int); CREATE TABLE b (id int); CREATE TABLE c (id int); ${ROLE}`,
    sql: 'CREATE TABLE more () INHERITS (items)',
  },
  {
    what: 'a function that reads a part of a column, which has another type',
    setup: `${THINGS}CREATE FUNCTION theme(wanted int) RETURNS text LANGUAGE plpgsql SET search_path = :schema AS
      $$ BEGIN RETURN (SELECT settings ->> 'theme' FROM things WHERE id = wanted); END $$`,
    sql: 'ALTER TABLE things ALTER COLUMN settings TYPE text',
    told: 'FUNCTION_BREAKS',
  },
  {
    what: 'a function that returns all columns, which are more',
    setup: `${THINGS}CREATE FUNCTION all_things(above int) RETURNS TABLE (id int, settings jsonb) LANGUAGE plpgsql SET search_path = :schema AS
      $$ BEGIN RETURN QUERY SELECT * FROM things t WHERE t.id > above; END $$`,
    sql: 'ALTER TABLE things ADD COLUMN note text',
    told: 'FUNCTION_BREAKS',
  },
  {
    what: 'a function whose ON CONFLICT names a constraint',
    setup: `${THINGS}CREATE FUNCTION put(key int) RETURNS void LANGUAGE plpgsql SET search_path = :schema AS
      $$ BEGIN INSERT INTO things VALUES (key) ON CONFLICT ON CONSTRAINT things_pkey DO NOTHING; END $$`,
    sql: 'ALTER TABLE things RENAME CONSTRAINT things_pkey TO things_key',
    told: 'FUNCTION_BREAKS',
  },
  {
    what: 'a function that no longer finds its table',
    setup: `${THINGS}CREATE FUNCTION put(key int) RETURNS void LANGUAGE plpgsql SET search_path = :schema AS
      $$ BEGIN INSERT INTO things VALUES (key); END $$`,
    sql: "ALTER FUNCTION put(int) SET search_path = ''",
    told: 'FUNCTION_BREAKS',
  },
  {
    what: 'a new body that names a column which there is not',
    setup: `${THINGS}CREATE FUNCTION put(key int) RETURNS void LANGUAGE plpgsql SET search_path = :schema AS
      $$ BEGIN INSERT INTO things VALUES (key); END $$`,
    sql: `CREATE OR REPLACE FUNCTION put(key int) RETURNS void LANGUAGE plpgsql SET search_path = :schema AS
      $$ BEGIN INSERT INTO things (id, name) VALUES (key, ''); END $$`,
    told: 'FUNCTION_BREAKS',
  },
  {
    what: 'a new body with rows of a loop, and with a table of its own',
    setup: `${THINGS}CREATE FUNCTION put(key int) RETURNS void LANGUAGE plpgsql SET search_path = :schema AS
      $$ BEGIN INSERT INTO things VALUES (key); END $$`,
    sql: `CREATE OR REPLACE FUNCTION put(key int) RETURNS void LANGUAGE plpgsql SET search_path = :schema AS $$
      DECLARE one record;
      BEGIN
        CREATE TEMP TABLE kept (id int);
        FOR one IN SELECT id, settings FROM things LOOP
          CASE one.id WHEN 1 THEN INSERT INTO kept VALUES (one.id); ELSE NULL; END CASE;
        END LOOP;
      END $$`,
  },
  {
    what: 'a new body that qualifies its arguments by the name of the function',
    setup: `${THINGS}CREATE FUNCTION put(id int) RETURNS void LANGUAGE plpgsql SET search_path = :schema AS
      $$ BEGIN INSERT INTO things VALUES (id); END $$`,
    sql: `CREATE OR REPLACE FUNCTION put(id int) RETURNS void LANGUAGE plpgsql SET search_path = :schema AS
      $$ BEGIN UPDATE things SET settings = NULL WHERE things.id = put.id; END $$`,
  },
  {
    what: 'a key that ON CONFLICT needs, and that is dropped as a constraint',
    setup: `${ITEMS}ALTER TABLE items ADD CONSTRAINT items_code UNIQUE (code); ${ROLE}`,
    sql: 'ALTER TABLE items DROP CONSTRAINT items_code',
    told: 'CONSTRAINT_DROPPED',
  },
  {
    what: 'the same key, which is told once',
    setup: `${ITEMS}ALTER TABLE items ADD CONSTRAINT items_code UNIQUE (code); ${ROLE}`,
    sql: 'ALTER TABLE items DROP CONSTRAINT items_code',
    never: 'ACCEPTS_LESS',
  },
  {
    what: 'a foreign key that cascades from now on, which is told once',
    setup: `${ITEMS}CREATE TABLE parts (id int PRIMARY KEY, item int CONSTRAINT parts_item REFERENCES items);
      CREATE TABLE notes (id int PRIMARY KEY, item int CONSTRAINT notes_item REFERENCES items ON DELETE CASCADE);
      INSERT INTO parts SELECT n, n FROM generate_series(1, 2000) n; INSERT INTO notes SELECT * FROM parts`,
    sql: `BEGIN; ALTER TABLE parts DROP CONSTRAINT parts_item;
      ALTER TABLE parts ADD CONSTRAINT parts_item FOREIGN KEY (item) REFERENCES items ON DELETE CASCADE; COMMIT`,
    never: 'ACCEPTS_MORE',
  },
  {
    what: 'a table and a column that are renamed, which a foreign key of another table names',
    setup: `${ITEMS}CREATE TABLE parts (id int PRIMARY KEY, item int CONSTRAINT parts_item REFERENCES items);
      INSERT INTO parts SELECT n, n FROM generate_series(1, 2000) n`,
    sql: 'ALTER TABLE items RENAME TO things; ALTER TABLE things RENAME COLUMN id TO thing',
    never: 'CONSTRAINT_CHANGED',
  },
  {
    what: 'a table that is renamed, to which a deferred foreign key refers',
    setup: `${ITEMS}CREATE TABLE parts (id int PRIMARY KEY, item int REFERENCES items DEFERRABLE INITIALLY DEFERRED);
      INSERT INTO parts SELECT n, n FROM generate_series(1, 2000) n`,
    sql: 'ALTER TABLE items RENAME TO things',
    never: 'ACCEPTS_LESS',
  },
  {
    what: 'a function that did not work before',
    setup: `${THINGS}CREATE FUNCTION lost() RETURNS int LANGUAGE plpgsql SET search_path = :schema AS
      $$ BEGIN RETURN (SELECT count(*) FROM things JOIN nowhere USING (id)); END $$`,
    sql: 'ALTER TABLE things ADD COLUMN note text',
  },
  {
    what: 'a view that is made again without a column',
    setup: `${ITEMS}CREATE VIEW coded AS SELECT id, code FROM items`,
    sql: 'DROP VIEW coded; CREATE VIEW coded AS SELECT id FROM items',
    told: 'ACCEPTS_LESS',
  },
  {
    what: 'a function in whose place the same calls fit two others',
    setup: "CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    sql: `DROP FUNCTION f(int); CREATE FUNCTION f(a int, b int DEFAULT 0) RETURNS int LANGUAGE sql AS 'SELECT 1';
      CREATE FUNCTION f(a int, b text DEFAULT '') RETURNS int LANGUAGE sql AS 'SELECT 1'`,
    told: 'OBJECT_DROPPED',
  },
  {
    what: 'a generated column that nobody computes any more',
    setup: 'CREATE TABLE items (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)',
    sql: 'ALTER TABLE items ALTER COLUMN twice DROP EXPRESSION',
    told: 'DEFAULT_CHANGED',
  },
  {
    what: 'a generated column that is dropped',
    setup: 'CREATE TABLE items (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)',
    sql: 'ALTER TABLE items DROP COLUMN twice',
    never: 'DEFAULT_CHANGED',
  },
  {
    what: 'a default of the moment of the migration',
    setup: 'CREATE TABLE items (id int PRIMARY KEY, made_at timestamptz DEFAULT now())',
    sql: "ALTER TABLE items ALTER COLUMN made_at SET DEFAULT 'now'::timestamptz",
    told: 'DEFAULT_CHANGED',
  },
  {
    what: 'an index on a function that is another one for few of the rows',
    setup: `${ITEMS}CREATE FUNCTION folded(code text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower(code)';
      CREATE INDEX items_folded ON items (folded(code))`,
    sql: `CREATE OR REPLACE FUNCTION folded(code text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT replace(lower(code), '99', '') $$`,
    told: 'READS_DIFFER',
  },
  {
    what: 'rows that a cascade deletes',
    setup: `CREATE TABLE parents (id int PRIMARY KEY); INSERT INTO parents SELECT generate_series(1, 100);
      CREATE TABLE children (id int PRIMARY KEY, parent int NOT NULL REFERENCES parents ON DELETE CASCADE);
      CREATE INDEX children_parent ON children (parent); INSERT INTO children SELECT n, 1 + n % 100 FROM generate_series(1, 2000) n`,
    sql: 'DELETE FROM parents WHERE id <= 10',
    told: 'ROWS_DELETED',
  },
  {
    what: 'rows that are moved to another table',
    setup: `${ITEMS}CREATE TABLE old_items (LIKE items INCLUDING ALL)`,
    sql: 'INSERT INTO old_items SELECT * FROM items WHERE id > 200; DELETE FROM items WHERE id > 200',
    never: 'ROWS_DELETED',
  },
  {
    what: 'an UPDATE that lacks the condition of its join',
    setup: `${ITEMS}CREATE TABLE codes (id int PRIMARY KEY, code text); INSERT INTO codes SELECT n, 'N' || n FROM generate_series(1, 20) n`,
    sql: 'UPDATE items SET code = codes.code FROM codes',
    told: 'VALUES_OVERWRITTEN',
  },
  {
    what: 'states that become one, and times that a trigger sets',
    setup: `CREATE TABLE items (id int PRIMARY KEY, state text, changed_at timestamptz);
      INSERT INTO items SELECT n, 'state' || n % 5, '2026-01-01'::timestamptz + n * interval '1 minute' FROM generate_series(1, 2000) n`,
    sql: "UPDATE items SET state = 'done', changed_at = now()",
    never: 'VALUES_OVERWRITTEN',
  },
  {
    what: 'a view that shows what policies hide',
    setup: `${ITEMS}ALTER TABLE items ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON items USING (id < 10); ${ROLE}`,
    sql: 'CREATE VIEW all_items AS SELECT * FROM items; GRANT SELECT ON all_items TO tried_app',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'a function with the rights of its owner, for every role',
    setup: ITEMS,
    sql: "CREATE FUNCTION first_item() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT min(id) FROM items'",
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'a small table that an application writes',
    setup: `CREATE TABLE items (id int PRIMARY KEY); INSERT INTO items VALUES (1); ${ROLE}`,
    sql: 'ALTER TABLE items RENAME TO things',
    told: 'TABLE_RENAMED',
  },
  {
    what: 'a table that a crash empties from now on',
    setup: ITEMS,
    sql: 'ALTER TABLE items SET UNLOGGED',
    told: 'SET_LOGGED_REWRITES',
  },
  {
    what: 'a number that loses digits',
    setup: `CREATE TABLE items (id int PRIMARY KEY, rate numeric(6,4)); INSERT INTO items SELECT n, 0.1234 FROM generate_series(1, 2000) n`,
    sql: 'ALTER TABLE items ALTER COLUMN rate TYPE numeric(6,2)',
    told: 'VALUES_CONVERTED',
  },
  {
    what: 'rows that appear, and refer to others',
    setup: `${ITEMS}CREATE TABLE parts (id int PRIMARY KEY, item int REFERENCES items); INSERT INTO parts SELECT n, n FROM generate_series(1, 50) n;
      ALTER TABLE parts ENABLE ROW LEVEL SECURITY; ${ROLE}`,
    sql: 'ALTER TABLE parts DISABLE ROW LEVEL SECURITY',
    never: 'ACCEPTS_LESS',
  },
];

describe.each(VERSIONS.filter((version) => version === 18 || version === 14))(
  'on PostgreSQL %i',
  (version) => {
    let report: Report;

    beforeAll(async () => {
      await useOwnServers(version);
      await withClient(serverUrl(version), (client) => client.query('CREATE ROLE tried_app LOGIN'));
      const folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-tried-'));
      const database = await temporaryDatabase(version);
      const files = EXAMPLES.map(({ sql, from = 0 }, index) => {
        const file = path.join(folder, `${index}.sql`);
        writeFileSync(file, from > version ? '' : sql.replaceAll(':schema', schemaOf(index)));
        return { schema: schemaOf(index), file };
      });
      await withClient(database.url, async (client) => {
        for (const [index, { setup }] of EXAMPLES.entries())
          await client.query(
            `CREATE SCHEMA ${schemaOf(index)}; SET search_path = ${schemaOf(index)}; ${setup.replaceAll(':schema', schemaOf(index))}`,
          );
      });
      report = await rehearse({
        command: [process.execPath, COMMAND, JSON.stringify(files)],
        env: { ...plainEnvironment(), DATABASE_URL: database.url },
        folder,
        clone: { method: 'template' },
        checks: { queries: 'off' },
      });
      await database.drop();
      rmSync(folder, { recursive: true });
    }, 120_000);

    const known = EXAMPLES.map((example, index) => ({ ...example, index }));
    test.each(known.filter(({ from = 0 }) => version >= from))('$what', ({ index, told, never }) => {
      const { grave, failed } = ofExample(report, index);
      expect(failed).toEqual([]);
      const codes = grave.map(({ code }) => code);
      if (never !== undefined) expect(codes).not.toContain(never);
      else
        expect(codes, JSON.stringify(grave)).toEqual(
          told === undefined ? [] : expect.arrayContaining([told]),
        );
    });
  },
);

const schemaOf = (index: number) => `tried_${index}_`;

/** What belongs to the session of an example, or to a relation in its schema. */
function ofExample({ statements, hazards }: Report, index: number) {
  const schema = schemaOf(index);
  const session = statements.find(({ sql }) => sql === `SET search_path = ${schema}`)?.session;
  const own = statements.filter((each) => each.session === session);
  const numbers = new Set(own.map((each) => each.index));
  return {
    failed: own.flatMap(({ error }) => error?.message ?? []),
    // Examples with the same statements are told apart by the relation.
    grave: hazards.filter(({ severity, statement, relation, message }) => {
      const isOwn =
        statement === null || relation?.startsWith('tried_')
          ? `${relation} ${message}`.includes(schema)
          : numbers.has(statement);
      return severity !== 'notice' && isOwn;
    }),
  };
}
