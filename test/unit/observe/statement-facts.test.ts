import { describe, expect, test } from 'vitest';
import { statementFacts } from '../../../src/observe/statement-facts.ts';
import { statement } from '../../helpers/facts.ts';

async function asked(sql: string) {
  return (await statementFacts([statement(1, { sql })])).get(1)?.actions;
}

const T = { schema: null, name: 't' };

describe('what a statement asks for', () => {
  test.each([
    ['CREATE TABLE IF NOT EXISTS t (a int)', { does: 'create table', table: T, ifNotExists: true }],
    ['CREATE INDEX ON t (a)', { does: 'create index', table: T, index: null, concurrently: false }],
    [
      'CREATE INDEX CONCURRENTLY IF NOT EXISTS i ON t (a)',
      { concurrently: true, ifNotExists: true, index: 'i' },
    ],
    ['DROP INDEX CONCURRENTLY s.i', { does: 'drop', kind: 'index', objects: [{ schema: 's', name: 'i' }] }],
    ['DROP SCHEMA s CASCADE', { kind: 'schema', objects: [{ schema: null, name: 's' }], cascade: true }],
    ['DROP MATERIALIZED VIEW v', { kind: 'materialized view' }],
    ['REINDEX INDEX CONCURRENTLY i', { does: 'reindex', kind: 'index', concurrently: true }],
    ['REINDEX (CONCURRENTLY false) TABLE t', { does: 'reindex', kind: 'table', concurrently: false }],
    ['LOCK TABLE t', { does: 'lock', tables: [T], mode: 'ACCESS EXCLUSIVE' }],
    ['LOCK TABLE t IN SHARE MODE', { does: 'lock', mode: 'SHARE' }],
    ['VACUUM FULL t', { does: 'vacuum', full: true, tables: [T] }],
    ['VACUUM (FULL off) t', { does: 'vacuum', full: false }],
    [
      'ALTER DOMAIN d ADD CHECK (value > 0) NOT VALID',
      { does: 'alter domain', adds: 'check', notValid: true },
    ],
    ['ALTER DOMAIN d VALIDATE CONSTRAINT c', { does: 'alter domain', adds: 'validation' }],
    ['ALTER TABLE t ADD UNIQUE USING INDEX i', { does: 'add constraint', kind: 'unique', usingIndex: 'i' }],
    ['ALTER TABLE t ADD CHECK (a IS NOT NULL AND b > 0)', { kind: 'check', provesNotNull: ['a'] }],
    ['ALTER TABLE t ADD CHECK (a IS NOT NULL OR b > 0)', { kind: 'check', provesNotNull: [] }],
    [
      'ALTER TABLE t ADD CONSTRAINT n NOT NULL a NOT VALID',
      { kind: 'not null', columns: ['a'], notValid: true },
    ],
    ['ALTER TABLE t DETACH PARTITION p CONCURRENTLY', { does: 'detach partition', concurrently: true }],
    ['ALTER TABLE t FORCE ROW LEVEL SECURITY', { does: 'row security', to: 'forced' }],
    ['ALTER TABLE t ADD a int GENERATED ALWAYS AS (b) STORED', { does: 'add column', stored: true }],
    ['ALTER TABLE t ADD a int GENERATED ALWAYS AS (b) VIRTUAL', { does: 'add column', stored: false }],
    ['ALTER TABLE t ADD a numeric(12, 2)', { type: 'numeric(12,2)' }],
    ['ALTER TABLE t ADD a character varying(20)[]', { type: 'varchar(20)[]' }],
    ['ALTER TABLE t ADD a timestamp(3) with time zone', { type: 'timestamptz(3)' }],
    ['ALTER TABLE t ALTER a TYPE interval day to second(2)', { type: 'interval' }],
    ['ALTER TABLE t ALTER a TYPE shop."My Type"', { type: 'shop."My Type"' }],
    ['ALTER TABLE t ALTER a TYPE geometry(Point, 4326)', { type: 'geometry' }],
    ['ALTER TABLE t ADD a bigserial', { does: 'add column', type: 'bigserial', hasDefault: false }],
  ])('%s', async (sql, expected) => {
    expect(await asked(sql)).toEqual([expect.objectContaining(expected)]);
  });

  test('of ALTER TABLE is a list, with the constraints of new columns', async () => {
    const actions = await asked('ALTER TABLE t ADD a int NOT NULL DEFAULT 1 REFERENCES r, DROP b CASCADE');
    expect(actions).toEqual([
      expect.objectContaining({ does: 'add column', column: 'a', notNull: true, hasDefault: true }),
      expect.objectContaining({
        does: 'add constraint',
        kind: 'foreign key',
        columns: ['a'],
        ofNewColumn: true,
      }),
      expect.objectContaining({ does: 'drop column', column: 'b', cascade: true }),
    ]);
  });

  test.each([
    ["SET lock_timeout = '2s'", false, false, 2_000],
    ["SET lock_timeout = '1.5 min'", false, false, 90_000],
    ['SET LOCAL lock_timeout TO 2000', false, true, 2_000],
    ['SET lock_timeout = 0', true, false],
    ["SET lock_timeout = '0ms'", true, false],
    ['SET lock_timeout TO DEFAULT', true, false],
    ['RESET lock_timeout', true, false],
    ['RESET ALL', true, false],
    ['DISCARD ALL', true, false],
    ["SELECT set_config('lock_timeout', '5s', true)", false, true, 5_000],
    ["SELECT pg_catalog.set_config('lock_timeout', '0', false)", true, false],
  ] as [string, boolean, boolean, number?][])('%s sets the lock_timeout', async (sql, off, local, ms) => {
    expect(await asked(sql)).toContainEqual({ does: 'set lock_timeout', off, local, ms });
  });

  test.each([
    ['SET search_path = app, "$user", "Odd one"', ['app', '$user', 'Odd one'], false],
    ['SET LOCAL search_path TO app', ['app'], true],
    ["SELECT pg_catalog.set_config('search_path', '', false)", [], false],
    ["SELECT set_config('search_path', 'app, \"Odd one\"', true)", ['app', 'Odd one'], true],
    ['RESET search_path', null, false],
    ['SET search_path TO DEFAULT', null, false],
    ['DISCARD ALL', null, false],
  ])('%s sets the search path', async (sql, schemas, local) => {
    expect(await asked(sql)).toContainEqual({ does: 'set search_path', schemas, local });
  });

  test("SET statement_timeout = '2min' sets it", async () => {
    const set = { does: 'set statement_timeout', off: false, local: false, ms: 120_000 };
    expect(await asked("SET statement_timeout = '2min'")).toEqual([set]);
  });

  test.each(['SELECT 1', "SET idle_session_timeout = '2s'", 'COMMIT', 'CREATE VIEW n AS SELECT 1'])(
    '%s is nothing that a hazard depends on',
    async (sql) => {
      expect(await asked(sql)).toEqual([]);
    },
  );

  test('is not known of a text that the parser does not accept', async () => {
    expect(await asked('ALTER TABEL t')).toBeUndefined();
  });

  test('is read once for the statements of a loop', async () => {
    const statements = Array.from({ length: 3 }, (_, n) =>
      statement(n, { sql: `INSERT INTO t VALUES (${n}, 'row ${n}')` }),
    );
    const facts = await statementFacts(statements);
    expect([...facts.values()].map(({ actions }) => actions)).toEqual(
      Array(3).fill([{ does: 'insert', table: T }]),
    );
    expect(new Set(facts.values()).size).toBe(1);
  });
});
