import { beforeAll, describe, expect, test } from 'vitest';
import { readDefinitions } from '../../../src/observe/effects/changed-definitions.ts';
import { SUBJECTS_THERE } from '../../../src/observe/effects/definition-parts.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { scratch } from '../../helpers/scratch.ts';
import { OLDEST_AND_NEWEST, useOwnServers } from '../../helpers/servers.ts';

/** A database with one of the things that parts of the query are about, and nothing of the others. */
const EXAMPLES: Record<string, string> = {
  tables: 'CREATE TABLE u (id int PRIMARY KEY, CHECK (id > 0), UNIQUE (id)); GRANT SELECT ON u TO PUBLIC',
  functions: "CREATE FUNCTION f() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'",
  rules: 'CREATE VIEW v AS SELECT id FROM t; CREATE RULE r AS ON INSERT TO v DO INSTEAD NOTHING',
  policies: 'ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (id > 1)',
  triggers:
    'CREATE TRIGGER a BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()',
  defaults:
    'ALTER TABLE t ADD d bigint GENERATED ALWAYS AS (id * 2) STORED, ADD s bigserial; ALTER SEQUENCE t_s_seq AS int',
  publications: 'CREATE PUBLICATION p FOR TABLE t',
  statistics: 'CREATE STATISTICS s ON id, name FROM t',
  partitionedTables:
    'CREATE TABLE e (at int) PARTITION BY RANGE (at); CREATE TABLE e1 PARTITION OF e FOR VALUES FROM (1) TO (9); CREATE TABLE rest PARTITION OF e DEFAULT',
  defaultPrivileges: 'ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC',
};

/** Says that the database has something of all. */
function withAll(session: Session): Session {
  const query: Session['query'] = async (sql, values) => {
    const rows = await session.query<Record<string, unknown>>(sql, values);
    const all = (row: object) => Object.fromEntries(Object.keys(row).map((name) => [name, true]));
    return (sql === SUBJECTS_THERE ? rows.map(all) : rows) as never;
  };
  return { query } as Session;
}

// Roles belong to the server, and other files make some on the shared ones.
beforeAll(() => useOwnServers(...OLDEST_AND_NEWEST));

describe.each(OLDEST_AND_NEWEST)('on PostgreSQL %i', (version) => {
  test('what a database has none of is not asked for, and nothing is missed', async () => {
    const { session, drop } = await scratch(version, 'CREATE TABLE public.t (id int, name text)');
    try {
      const without = await readDefinitions(session);
      for (const [subject, sql] of Object.entries(EXAMPLES)) {
        await session.query(
          `BEGIN; SET LOCAL search_path = public; ${sql}; SET LOCAL search_path = pg_catalog`,
        );
        const definitions = await readDefinitions(session);
        expect(definitions, subject).toEqual(await readDefinitions(withAll(session)));
        expect(definitions.size, subject).toBeGreaterThan(without.size);
        const there = await session.query(SUBJECTS_THERE);
        if (subject !== 'tables') expect(there, subject).toMatchObject([{ [subject]: true }]);
        await session.query('ROLLBACK');
      }
    } finally {
      await drop();
    }
  });
});
