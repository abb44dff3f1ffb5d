import { describe, expect, test } from 'vitest';
import { lostData } from '../../../src/observe/lost-data.ts';
import { compareRelations, readRelations, rowsGone } from '../../../src/observe/relations.ts';
import { currentCounts } from '../../../src/observe/written-rows.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { waitUntil } from '../../../src/postgres/session-helpers.ts';
import { withClient } from '../../helpers/client.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

const STILL_THERE = 'SELECT FROM pg_stat_activity WHERE pid = $1';

describe.each(VERSIONS)('on %d', (version) => {
  test('relations that changed are listed with exact counts, the others counted', async () => {
    const { session, drop } = await scratch(version);
    try {
      await session.query(`
        CREATE TABLE same (a integer); INSERT INTO same VALUES (1);
        CREATE TABLE grown (a integer); INSERT INTO grown VALUES (1);
        CREATE TABLE emptied (a integer); INSERT INTO emptied VALUES (1), (2);
        CREATE TABLE widened (a integer); INSERT INTO widened VALUES (1);
        CREATE TABLE gone (a integer); INSERT INTO gone VALUES (1)`);
      const before = await readRelations(session);
      await session.query(`
        INSERT INTO grown VALUES (2); TRUNCATE emptied; ALTER TABLE widened ALTER a TYPE bigint; DROP TABLE gone;
        CREATE TABLE "New" (a integer); INSERT INTO "New" VALUES (1), (2), (3)`);
      const after = await readRelations(session, before);
      const { section, caveats } = compareRelations(before, after, 0);
      expect(section.unchangedTables).toBe(1);
      const brief = section.tables.map((t) => [t.relation, t.rowsBefore, t.rowsAfter, t.rewritten, t.exact]);
      expect(brief).toEqual([
        ['public."New"', 0, 3, false, true],
        ['public.emptied', 2, 0, true, true],
        ['public.gone', 1, 0, false, true],
        ['public.grown', 1, 2, false, true],
        ['public.widened', 1, 1, true, true],
      ]);
      expect(caveats).toEqual([]);
      expect(rowsGone(before, after)).toEqual(['2 rows deleted from public.emptied']);
    } finally {
      await drop();
    }
  });

  // Version 14 sends its counts as datagrams, which a busy system may drop.
  const sends = { retry: version === 14 ? 2 : 0 };
  test('rows that sessions wrote are counted as soon as they have ended', sends, async () => {
    const { session, url, drop } = await scratch(version);
    try {
      await session.query('CREATE TABLE counted (a integer)');
      for (let round = 1; round <= 5; round++) {
        const before = await readRelations(session);
        const writer = await withClient(url, async (client) => {
          await client.query('INSERT INTO counted VALUES (1)');
          return (await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]?.pid;
        });
        const isGone = async () => (await session.query(STILL_THERE, [writer])).length === 0;
        await waitUntil(isGone, { everyMs: 2, timeoutMs: 10_000 });
        expect(await currentCounts(session)).toEqual([]);
        const { section } = compareRelations(before, await readRelations(session, before), 0);
        expect(section.written).toMatchObject([{ relation: 'public.counted', inserted: 1 }]);
      }
    } finally {
      await drop();
    }
  });

  test('rows are counted that were committed, however much else was rolled back', sends, async () => {
    const { session, url, drop } = await scratch(version);
    try {
      await withClient(url, (client) =>
        client.query(`CREATE TABLE orders (id int PRIMARY KEY, total int);
          INSERT INTO orders SELECT n, n FROM generate_series(1, 5000) n;
          CREATE TABLE failed AS TABLE orders; CREATE TABLE mixed AS TABLE orders; CREATE TABLE caught AS TABLE orders;
          CREATE TABLE analyzed AS TABLE orders`),
      );
      await currentCounts(session);
      const before = await readRelations(session);
      await withClient(url, async (client) => {
        await client.query('UPDATE failed SET total = 1 / (id - 4999)').catch(() => {});
        await client.query('BEGIN; DELETE FROM failed; ROLLBACK');
        await client.query('BEGIN; UPDATE orders SET total = 0 WHERE id <= 7; SAVEPOINT a');
        await client.query('UPDATE orders SET total = 1; ROLLBACK TO a; COMMIT');
        await client.query('BEGIN; DELETE FROM mixed WHERE id <= 10; INSERT INTO mixed VALUES (6000, 1)');
        await client.query('SAVEPOINT a; INSERT INTO mixed SELECT * FROM orders; ROLLBACK TO a; COMMIT');
        await client.query(`DO $$ BEGIN
          BEGIN UPDATE caught SET total = 2; RAISE 'no'; EXCEPTION WHEN OTHERS THEN NULL; END; END $$`);
        await client.query('BEGIN; DELETE FROM analyzed WHERE id <= 20; ROLLBACK; ANALYZE analyzed');
      });
      expect(await currentCounts(session)).toEqual([]);
      const { section, caveats } = compareRelations(before, await readRelations(session, before, true), 0);
      expect(section.written).toEqual([
        { relation: 'public.analyzed', inserted: 0, updated: 0, deleted: 20, atMost: true },
        { relation: 'public.mixed', inserted: 1, updated: 0, deleted: 10 },
        { relation: 'public.orders', inserted: 0, updated: 7, deleted: 0 },
      ]);
      expect(caveats).toEqual([
        { path: 'data.written', kind: 'estimate', reason: expect.stringContaining('public.analyzed') },
      ]);
      const lost = lostData({ schema: null, data: section, columns: new Map() });
      expect(lost.map(({ object, rowsWithValue }) => [object, rowsWithValue])).toEqual([
        ['public.mixed', 10],
      ]);
    } finally {
      await drop();
    }
  });

  test('tables of more rows than fit in 8 MB are counted, as count(*) does', async () => {
    const { session, url, drop } = await scratch(version);
    try {
      // Half of the rows are dead, and the rest unevenly distributed, so that the planner's estimate is another number.
      await session.query(`CREATE TABLE rewritten (id int, note text) WITH (autovacuum_enabled = off);
        INSERT INTO rewritten SELECT n, repeat('x', n % 300) FROM generate_series(1, 133332) n;
        ANALYZE rewritten; DELETE FROM rewritten WHERE id % 2 = 0; CREATE TABLE grown AS TABLE rewritten`);
      const before = await readRelations(session);
      await withClient(url, async (client) => {
        await client.query('ALTER TABLE rewritten ALTER id TYPE bigint; DELETE FROM grown WHERE id < 100');
      });
      await currentCounts(session);
      const { section, caveats } = compareRelations(before, await readRelations(session, before, true), 0);
      const counted = await session.query<{ rewritten: string; grown: string }>(
        'SELECT (SELECT count(*) FROM rewritten) AS rewritten, (SELECT count(*) FROM grown) AS grown',
      );
      expect(counted).toEqual([{ rewritten: '66666', grown: '66616' }]);
      expect(section.tables.map((t) => [t.relation, t.rowsBefore, t.rowsAfter, t.exact])).toEqual([
        ['public.grown', 66_666, 66_616, true],
        ['public.rewritten', 66_666, 66_666, true],
      ]);
      expect(Math.min(...section.tables.map(({ bytesBefore }) => bytesBefore ?? 0))).toBeGreaterThan(
        8 * 2 ** 20,
      );
      expect(caveats).toEqual([]);
    } finally {
      await drop();
    }
  });

  test('a relation that cannot be counted is estimated once it was analysed, and unmeasured before', async () => {
    const { session, settings, drop } = await scratch(version);
    const role = `uncounted_${process.pid}`;
    try {
      await session.query(`CREATE ROLE ${role} LOGIN PASSWORD 'uncounted'`);
      const reader = await openSession(
        { ...settings, user: role, password: 'uncounted' },
        { purpose: 'test' },
      );
      await session.query(`CREATE TABLE large WITH (autovacuum_enabled = off) AS
        SELECT i, repeat('x', 1000) AS v FROM generate_series(1, 10000) i`);
      const unknown = await readRelations(reader);
      await session.query('ANALYZE large');
      const known = await readRelations(reader);
      const rowsOf = (data: typeof known) =>
        [...data.relations.values()].map(({ rows, exact }) => [rows, exact]);
      expect(rowsOf(unknown)).toEqual([[null, false]]);
      expect(rowsOf(known)).toEqual([[10000, false]]);
      await session.query('ALTER TABLE large ADD COLUMN w uuid DEFAULT gen_random_uuid()');
      const { caveats } = compareRelations(unknown, await readRelations(reader), 5, { isShared: true });
      expect(caveats.map(({ path, kind }) => [path, kind])).toEqual([
        ['data.tables', 'estimate'],
        ['data.tables', 'unmeasured'],
        ['data.walBytes', 'estimate'],
      ]);
      await reader.close();
    } finally {
      await session.query(`DROP ROLE ${role}`);
      await drop();
    }
  });

  test('a rewrite of an estimated relation with dead rows deletes none; TRUNCATE deletes all', async () => {
    const { session, settings, drop } = await scratch(version);
    const role = `estimated_${process.pid}`;
    try {
      await session.query(`CREATE ROLE ${role} LOGIN PASSWORD 'estimated'`);
      const reader = await openSession(
        { ...settings, user: role, password: 'estimated' },
        { purpose: 'test' },
      );
      for (const table of ['compacted', 'retyped', 'emptied'])
        await session.query(`CREATE TABLE ${table} WITH (autovacuum_enabled = off) AS
          SELECT i, repeat('x', 1000) AS v FROM generate_series(1, 10000) i;
          ANALYZE ${table}; UPDATE ${table} SET i = i WHERE i % 10 = 0`);
      const before = await readRelations(reader);
      await session.query('VACUUM FULL compacted');
      await session.query('ALTER TABLE retyped ALTER i TYPE bigint; TRUNCATE emptied');
      const after = await readRelations(reader, before);
      const { section } = compareRelations(before, after, 0);
      const lost = lostData({ schema: null, data: section, columns: new Map() });
      expect(lost.map(({ object, exact }) => [object, exact])).toEqual([['public.emptied', false]]);
      expect(rowsGone(before, after)).toEqual([
        expect.stringMatching(/^about 1\d,000 rows deleted from public.emptied$/),
      ]);
      await reader.close();
    } finally {
      await session.query(`DROP ROLE ${role}`);
      await drop();
    }
  });

  test('sizes are those of pg_relation_size, TOAST included, whoever asks', async () => {
    const { session, settings, drop } = await scratch(version);
    const role = `sizes_${process.pid}`;
    try {
      await session.query(`CREATE ROLE ${role} LOGIN PASSWORD 'sizes'; CREATE TABLE plain AS SELECT 1 AS a; CREATE TABLE empty (t text);
        CREATE TABLE wide (t text); ALTER TABLE wide ALTER t SET STORAGE EXTERNAL; INSERT INTO wide SELECT repeat('x', 10000) FROM generate_series(1, 100);
        CREATE MATERIALIZED VIEW seen AS SELECT * FROM wide; CREATE TABLE parts (a integer) PARTITION BY LIST (a)`);
      const expected = await session.query<{ relname: string; bytes: string }>(`
        SELECT relname, pg_relation_size(oid) + CASE reltoastrelid WHEN 0 THEN 0 ELSE pg_relation_size(reltoastrelid) END AS bytes
        FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'm')`);
      expect(Number(expected.find(({ relname }) => relname === 'wide')?.bytes)).toBeGreaterThan(1_000_000);
      const reader = await openSession({ ...settings, user: role, password: 'sizes' }, { purpose: 'test' });
      for (const asker of [session, reader]) {
        const { relations } = await readRelations(asker);
        const sizes = [...relations.values()].map(({ name, sizeBytes }) => [name, sizeBytes]);
        expect(sizes.sort()).toEqual(expected.map(({ relname, bytes }) => [relname, Number(bytes)]).sort());
      }
      await reader.close();
    } finally {
      await session.query(`DROP ROLE ${role}`);
      await drop();
    }
  });

  test('rows behind row-level security are not counted as if they were not there', async () => {
    const { session, settings, drop } = await scratch(version);
    const role = `rls_${process.pid}`;
    try {
      await session.query(`CREATE ROLE ${role} LOGIN PASSWORD 'rls'; CREATE TABLE hidden (a integer); INSERT INTO hidden VALUES (1);
        ALTER TABLE hidden ENABLE ROW LEVEL SECURITY; GRANT SELECT ON hidden TO ${role}`);
      const reader = await openSession({ ...settings, user: role, password: 'rls' }, { purpose: 'test' });
      const { relations } = await readRelations(reader);
      await reader.close();
      expect([...relations.values()].map(({ exact }) => exact)).toEqual([false]);
    } finally {
      await session.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
      await drop();
    }
  });
});
