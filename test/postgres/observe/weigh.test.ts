import { describe, expect, test } from 'vitest';
import { compareRelations, readRelations } from '../../../src/observe/relations.ts';
import { nameParts, weighTarget } from '../../../src/observe/weigh.ts';
import { compareWith } from '../../../src/schema/compare.ts';
import { takeSnapshot } from '../../../src/schema/facts.ts';
import type { ServerVersion } from '../../../src/server/binaries.ts';
import { newRunId } from '../../../src/upkeep/run-id.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

const QUIET = { bytes: 0, shared: false };

/** What `sql` destroys in a clone of a target that was made by `made`: both are scratch databases here. */
async function lossesOf(version: ServerVersion, made: string, sql: string) {
  const [target, clone] = [await scratch(version, made), await scratch(version, made)];
  try {
    const [snapshot, relations] = [await takeSnapshot(clone.session), await readRelations(clone.session)];
    await clone.session.query(sql);
    const { section: schema } = await compareWith(snapshot, clone.session);
    const { section: data } = compareRelations(
      relations,
      await readRelations(clone.session, relations),
      QUIET,
    );
    const weights = await weighTarget(
      { target: { settings: target.settings }, run: newRunId(), audit: () => {} },
      { schema, data, transactions: [] },
    );
    return { ...weights, lost: weights.data?.lost ?? [] };
  } finally {
    await target.drop();
    await clone.drop();
  }
}

describe.each(VERSIONS)('on %d', (version) => {
  test('of dropped and narrowed columns of a small table the values are counted on the target', async () => {
    const made = `
      CREATE TABLE users (id int PRIMARY KEY, legacy_email text, "Nick" text, name text);
      INSERT INTO users SELECT n, CASE WHEN n % 4 > 0 THEN 'x' END, NULL, 'Ada' FROM generate_series(1, 100) n`;
    const { lost, touched, limits } = await lossesOf(
      version,
      made,
      'ALTER TABLE users DROP legacy_email, DROP "Nick", ALTER name TYPE varchar(3)',
    );
    const of = { kind: 'column', rows: 100, exact: true };
    expect(lost).toHaveLength(3);
    expect(lost).toEqual(
      expect.arrayContaining([
        { object: 'public.users.legacy_email', what: 'dropped', rowsWithValue: 75, ...of },
        { object: 'public.users."Nick"', what: 'dropped', rowsWithValue: 0, ...of },
        { object: 'public.users.name', what: 'narrowed', rowsWithValue: 100, ...of },
      ]),
    );
    expect(touched).toEqual([expect.stringMatching(/^counted the rows of public\.users in /)]);
    expect(limits).toEqual([]);
  });

  test('of a large table they are estimated from the statistics, without a scan', async () => {
    const made = `
      CREATE TABLE users WITH (autovacuum_enabled = off) AS
        SELECT n AS id, CASE WHEN n % 2 = 0 THEN n END AS legacy FROM generate_series(1, 120000) n;
      ANALYZE users`;
    const { lost, touched } = await lossesOf(version, made, 'ALTER TABLE users DROP legacy');
    expect(touched).toEqual([]);
    expect(lost).toMatchObject([{ object: 'public.users.legacy', rows: 120_000, exact: false }]);
    expect(lost[0]?.rowsWithValue).toBeGreaterThan(55_000);
    expect(lost[0]?.rowsWithValue).toBeLessThan(65_000);
  });

  test('of a partitioned table they are those of its partitions', async () => {
    const made = `
      CREATE TABLE events (id int, note text) PARTITION BY RANGE (id);
      CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (10);
      CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM (10) TO (20);
      INSERT INTO events SELECT n, CASE WHEN n < 15 THEN 'x' END FROM generate_series(1, 19) n`;
    const { lost } = await lossesOf(version, made, 'ALTER TABLE events DROP note');
    expect(lost).toEqual([
      {
        object: 'public.events.note',
        kind: 'column',
        what: 'dropped',
        rows: 19,
        rowsWithValue: 14,
        exact: true,
      },
    ]);
  });

  test('of a dropped partitioned table each partition is told with its rows', async () => {
    const made = `
      CREATE TABLE events (id int) PARTITION BY RANGE (id);
      CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (10);
      INSERT INTO events SELECT generate_series(1, 9)`;
    const { lost } = await lossesOf(version, made, 'DROP TABLE events');
    expect(lost).toEqual([
      { object: 'public.events_1', kind: 'table', what: 'dropped', rows: 9, rowsWithValue: 9, exact: true },
    ]);
  });

  test('dropped tables are listed with their rows, also with their schema, and one that was made anew', async () => {
    const made = `
      CREATE TABLE a (id int); INSERT INTO a VALUES (1), (2);
      CREATE TABLE b (id int); INSERT INTO b VALUES (1);
      CREATE SCHEMA old CREATE TABLE c (id int); INSERT INTO old.c VALUES (1), (2), (3);`;
    const sql = 'DROP TABLE a; DROP TABLE b; CREATE TABLE b (id int); DROP SCHEMA old CASCADE';
    const { lost } = await lossesOf(version, made, sql);
    const brief = lost.map(({ object, what, rows, exact }) => [object, what, rows, exact]);
    expect(brief.sort()).toEqual([
      ['old.c', 'dropped', 3, true],
      ['public.a', 'dropped', 2, true],
      ['public.b', 'dropped', 1, true],
    ]);
  });

  test('deleted rows are told of tables that the schema difference does not name', async () => {
    const made = `
      CREATE TABLE emptied (id int); INSERT INTO emptied VALUES (1), (2);
      CREATE TABLE thinned (id int); INSERT INTO thinned VALUES (1), (2), (3);
      CREATE TABLE kept (id int); INSERT INTO kept VALUES (1)`;
    const sql = 'TRUNCATE emptied; DELETE FROM thinned WHERE id = 1; UPDATE kept SET id = 2';
    const { lost } = await lossesOf(version, made, sql);
    expect(lost).toEqual([
      { object: 'public.emptied', kind: 'table', what: 'deleted', rows: 2, rowsWithValue: 2, exact: true },
      { object: 'public.thinned', kind: 'table', what: 'deleted', rows: 3, rowsWithValue: 1, exact: true },
    ]);
  });

  test('what is written anew is weighed with its indexes', async () => {
    const made = 'CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10000)';
    const { rewrittenBytes } = await lossesOf(version, made, 'ALTER TABLE t ALTER id TYPE bigint');
    expect(rewrittenBytes?.get('public.t')).toBeGreaterThan(500_000);
  });
});

test.each([
  ['public.users.email', ['public', 'users', 'email']],
  ['public."Us.ers"."a ""b"""', ['public', 'Us.ers', 'a "b"']],
])('the name %s has the parts %j', (name, parts) => {
  expect(nameParts(name)).toEqual(parts);
});
