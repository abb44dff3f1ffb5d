import { describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import type { ConvertedColumn } from '../../../src/model/report.ts';
import { measureDataLoss } from '../../../src/observe/data-loss.ts';
import { compareRelations, readRelations } from '../../../src/observe/relations.ts';
import { withRewrites } from '../../../src/observe/rewritten-relations.ts';
import { statementFacts } from '../../../src/observe/statement-facts.ts';
import { newRunId } from '../../../src/ownership/run-id.ts';
import type { LockMode } from '../../../src/postgres/lock-modes.ts';
import { nameParts } from '../../../src/postgres/sql/quote.ts';
import { compareWith } from '../../../src/schema/compare-schemas.ts';
import { takeSnapshot } from '../../../src/schema/schema-facts.ts';
import { until } from '../../helpers/cutting.ts';
import { withClient } from '../../helpers/database.ts';
import { statement } from '../../helpers/facts.ts';
import { scratch } from '../../helpers/scratch.ts';
import { NEWEST, OLDEST_AND_NEWEST, serverUrl } from '../../helpers/servers.ts';

// A table that was never analysed has no number of rows, but some if it has a page.
const COUNTED = `SELECT coalesce(bool_and(s.n_tup_ins >= greatest(c.reltuples, sign(pg_relation_size(c.oid)))), true) AS counted
  FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid WHERE c.relkind = 'r'`;
const UPDATED = 'SELECT sum(n_tup_upd)::float8 AS rows FROM pg_stat_user_tables';

/**
 * Returns the losses that `sql` makes in a clone of a target that was made by `made`: both are scratch databases here.
 * @param updated rows, which the server counts some time after it has changed them.
 */
async function lossesOf(version: ServerVersion, made: string, sql: string, updated = 0) {
  const [target, clone] = [await scratch(version, made), await scratch(version, made)];
  try {
    // Before PostgreSQL 15 another process counts: rows of the setup must not count as the command's.
    await until('the rows of the setup are counted', async () => {
      const [row] = await clone.session.query<{ counted: boolean }>(COUNTED);
      return row?.counted === true;
    });
    const [snapshot, relations] = [await takeSnapshot(clone.session), await readRelations(clone.session)];
    await clone.session.query(sql);
    if (updated > 0)
      await until('the updated rows are counted', async () => {
        const [row] = await clone.session.query<{ rows: number }>(UPDATED);
        return row !== undefined && row.rows >= updated;
      });
    const { section: schema, retyped } = await compareWith(snapshot, clone.session);
    const tables = new Set(schema.changes.map(({ object }) => nameParts(object).slice(0, 2).join('.')));
    const locks = [...tables].map((table): [string, LockMode, number] => [table, 'ACCESS EXCLUSIVE', 1]);
    const sent = [statement(1, { sql, locks })];
    const { section: data } = compareRelations(relations, await readRelations(clone.session, relations), 0);
    const parsed = await statementFacts(sent);
    const statements = withRewrites(sent, parsed, data);
    const weights = await measureDataLoss(
      { target: { settings: target.settings }, clone: clone.settings, run: newRunId(), audit: () => {} },
      { schema, data, retyped, transactions: [], statements, parsed },
    );
    return { ...weights, lost: weights.data?.lost ?? [] };
  } finally {
    await target.drop();
    await clone.drop();
  }
}

/** What one table's columns v0, v1, … lose by a change of their types; a last row holds nothing but NULLs. */
function retyping(version: ServerVersion, columns: [from: string, to: string, values: string[]][]) {
  const rows = [...(columns[0]?.[2] ?? []), 'NULL'].map(
    (_, row) => `(${columns.map(([, , values]) => values[row] ?? 'NULL').join(', ')})`,
  );
  return lossesOf(
    version,
    `CREATE TABLE t (${columns.map(([from], index) => `v${index} ${from}`).join(', ')});
     INSERT INTO t VALUES ${rows.join(', ')}`,
    `ALTER TABLE t ${columns.map(([, to], index) => `ALTER v${index} TYPE ${to.replaceAll('$', `v${index}`)}`).join(', ')}`,
  );
}

const numberOf = ({ object }: { object: string }) => Number(/\d+$/.exec(object)?.[0]);

/** From, to, a value that fits, and one that does not. */
const REFUSED = [
  ['varchar(20)', 'varchar(10)', "'short'", "'too long for it'"],
  ['text', 'varchar(10)', "'short'", "'too long for it'"],
  ['text', 'char(10)', "'short'", "'too long for it'"],
  ['char(20)', 'char(10)', "'short'", "'too long for it'"],
  ['bigint', 'integer', '1', '5000000000'],
  ['bigint', 'integer USING $::integer', '1', '5000000000'],
  ['numeric(10,2)', 'numeric(5,2)', '1', '12345.67'],
  ['numeric(10,2)', 'numeric(5,2) USING $::numeric(5,2)', '1', '12345.67'],
  ['integer', 'numeric(5,2)', '1', '12345'],
] as const;

/** From, to, a value that survives, and one that does not. */
const SILENT = [
  ['varchar(20)', 'varchar(5) USING $::varchar(5)', "'short'", "'too long'"],
  ['text', 'char(5) USING CAST($ AS char(5))', "'short'", "'too long'"],
  ['numeric(10,2)', 'numeric(10,1)', '1.5', '1.55'],
  ['numeric(10,2)', 'integer', '1', '1.55'],
  ['numeric', 'double precision', '1', '12345678901234567890.123'],
  ['double precision', 'real', '1.5', '1.1'],
  ['double precision', 'integer', '1', '1.1'],
  ['double precision', 'numeric', '1', '0.30000000000000004'],
  ['bigint', 'double precision', '1', '9007199254740993'],
  ['timestamp', 'timestamp(0)', "'2026-01-01 10:00'", "'2026-01-01 10:00:00.5'"],
  ['timestamptz', 'timestamptz(3)', "'2026-01-01 10:00'", "'2026-01-01 10:00:00.0005'"],
  ['timestamp', 'date', "'2026-01-01'", "'2026-01-01 10:00'"],
  ['timestamptz', 'date', "'2026-01-01'", "'2026-01-01 10:07'"],
  ['timestamp', 'time', "'1970-01-01 10:00'", "'2026-01-01 10:00'"],
] as const;

/** A column that makes a table of 120,000 rows larger than what is counted. */
const FILLER = "repeat('x', 900)";

// What reads the values, a sample of them, statistics and partitions.
describe.each(OLDEST_AND_NEWEST)('on %d', (version) => {
  test('of dropped and narrowed columns of a small table the values are counted on the target', async () => {
    const made = `
      CREATE TABLE users (id int PRIMARY KEY, legacy_email text, "Nick" text, name text);
      INSERT INTO users SELECT n, CASE WHEN n % 4 > 0 THEN 'x' END, NULL, 'Ada' FROM generate_series(1, 100) n`;
    const { lost, touched, caveats } = await lossesOf(
      version,
      made,
      'ALTER TABLE users DROP legacy_email, DROP "Nick", ALTER name TYPE varchar(2) USING name::varchar(2)',
    );
    const of = { kind: 'column', rows: 100, rowsChanged: null, exact: true };
    expect(lost).toHaveLength(3);
    expect(lost).toEqual(
      expect.arrayContaining([
        { object: 'public.users.legacy_email', what: 'dropped', rowsWithValue: 75, ...of },
        { object: 'public.users."Nick"', what: 'dropped', rowsWithValue: 0, ...of },
        { ...of, object: 'public.users.name', what: 'narrowed', rowsWithValue: 100, rowsChanged: 100 },
      ]),
    );
    expect(touched).toEqual([expect.stringMatching(/^counted the rows of public\.users in /)]);
    expect(caveats).toEqual([]);
  });

  test('what is cut or rounded silently is counted', async () => {
    const { schema, lost } = await retyping(
      version,
      SILENT.map(([from, to, kept, changed]) => [from, to, [kept, changed]]),
    );
    expect(lost.toSorted((one, other) => numberOf(one) - numberOf(other))).toEqual(
      SILENT.map((_, index) => ({
        object: `public.t.v${index}`,
        kind: 'column',
        what: 'narrowed',
        rows: 3,
        rowsWithValue: 2,
        rowsChanged: 1,
        exact: true,
      })),
    );
    expect(schema?.rollbackLoses.filter((words) => words.includes('as they were'))).toHaveLength(
      SILENT.length,
    );
  });

  test('of a large table the values of some pages are cast', async () => {
    const made = `CREATE TABLE t (id int, v numeric(10,4), w numeric(10,4), filler text);
      INSERT INTO t SELECT n, n % 2 + 0.00005, n, ${FILLER} FROM generate_series(1, 120000) n; ANALYZE t`;
    const sql = 'ALTER TABLE t ALTER v TYPE numeric(10,2), ALTER w TYPE numeric(10,2)';
    const { lost, touched } = await lossesOf(version, made, sql);
    const of = { kind: 'column', what: 'narrowed', exact: false, rowsCompared: expect.any(Number) };
    expect(lost.toSorted((one, other) => one.object.localeCompare(other.object))).toEqual([
      { ...of, object: 'public.t.v', rows: 120_000, rowsWithValue: 120_000, rowsChanged: 120_000 },
      { ...of, object: 'public.t.w', rows: 120_000, rowsWithValue: 120_000, rowsChanged: null },
    ]);
    expect(lost.every(({ rowsCompared = 0 }) => rowsCompared > 100 && rowsCompared < 20_000)).toBe(true);
    expect(touched).toEqual(['read some pages of public.t']);
  });

  test('of a large table they are estimated from the statistics, without a scan', async () => {
    const made = `
      CREATE TABLE users WITH (autovacuum_enabled = off) AS
        SELECT n AS id, CASE WHEN n % 2 = 0 THEN n END AS legacy, ${FILLER} AS filler FROM generate_series(1, 120000) n;
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
        rowsChanged: null,
        exact: true,
      },
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
      {
        object: 'public.emptied',
        kind: 'table',
        what: 'deleted',
        rows: 2,
        rowsWithValue: 2,
        rowsChanged: null,
        exact: true,
      },
      {
        object: 'public.thinned',
        kind: 'table',
        what: 'deleted',
        rows: 3,
        rowsWithValue: 1,
        rowsChanged: null,
        exact: true,
      },
    ]);
  });
});

describe.each(NEWEST)('on %d alone', (version) => {
  test.each(REFUSED)('what of %s %s cannot hold is refused', async (from, to, short, long) => {
    await withClient(serverUrl(version), async (client) => {
      await client.query(`CREATE TEMP TABLE t (v ${from}); INSERT INTO t VALUES (${short}), (${long})`);
      await expect(client.query(`ALTER TABLE t ALTER v TYPE ${to.replace('$', 'v')}`)).rejects.toMatchObject({
        code: /'/.test(long) ? '22001' : '22003',
      });
    });
  });

  test('so that nothing is lost by such changes, and nothing is counted', async () => {
    const { schema, lost, touched } = await retyping(
      version,
      REFUSED.map(([from, to, short]) => [from, to, [short]]),
    );
    expect(schema?.changes.filter(({ dataLoss }) => dataLoss)).toEqual([]);
    expect(schema?.rollbackLoses.filter((words) => words.includes('as they were'))).toEqual([]);
    expect({ lost, touched }).toEqual({ lost: [], touched: [] });
  });

  test('where all values survive such changes nothing is lost', async () => {
    const { schema, lost } = await retyping(
      version,
      SILENT.map(([from, to, kept]) => [from, to, [kept, kept]]),
    );
    expect(schema?.changes.filter(({ dataLoss }) => dataLoss)).toEqual([]);
    expect(schema?.rollbackLoses.filter((words) => words.includes('as they were'))).toEqual([]);
    expect(lost).toEqual([]);
  });

  test('a text that becomes the label of an enum loses nothing, unless an expression chooses the label', async () => {
    const made = `CREATE TYPE state AS ENUM ('open', 'paid'); CREATE TABLE t (v text, w varchar(9), x text);
      INSERT INTO t VALUES ('open', 'paid', 'open')`;
    const cast = (column: string) => `ALTER ${column} TYPE state USING ${column}::state`;
    const same = await lossesOf(version, made, `ALTER TABLE t ${cast('v')}, ${cast('w')}`);
    expect(same.schema?.changes.filter(({ dataLoss }) => dataLoss)).toEqual([]);
    expect({ lost: same.lost, touched: same.touched }).toEqual({ lost: [], touched: [] });
    const chosen = `ALTER TABLE t ALTER x TYPE state USING CASE x WHEN 'open' THEN 'paid' ELSE 'open' END::state`;
    const { schema } = await lossesOf(version, made, chosen);
    expect(schema?.changes.filter(({ dataLoss }) => dataLoss)).toHaveLength(1);
  });

  test('what an expression or a time zone makes of values may be a loss, unless there are none', async () => {
    const { schema, lost } = await retyping(version, [
      ['text', 'varchar(5) USING left($, 5)', ["'short'"]],
      ['timestamptz', 'timestamp', ["'2026-01-01'"]],
      ['text', 'jsonb USING $::jsonb', ["'{}'"]],
      ['text', 'jsonb USING $::jsonb', ['NULL']],
    ]);
    // Of the first column, each value was compared, and is as it was.
    expect(lost.map(({ object, rowsChanged }) => [object, rowsChanged])).toEqual([
      ['public.t.v1', null],
      ['public.t.v2', null],
    ]);
    expect(schema?.changes.filter(({ dataLoss }) => dataLoss)).toHaveLength(2);
  });

  test('a change of type that no statement tells may have lost values', async () => {
    const made = "CREATE TABLE t (v varchar(20)); INSERT INTO t VALUES ('x')";
    const sql = 'DO $$ BEGIN ALTER TABLE t ALTER v TYPE varchar(10); END $$';
    const { schema } = await lossesOf(version, made, sql);
    expect(schema?.changes).toMatchObject([{ object: 'public.t.v', dataLoss: true }]);
  });

  test('a partitioned table and its partitions are told alike', async () => {
    const made = `
      CREATE TABLE events (id int, v varchar(20)) PARTITION BY RANGE (id);
      CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (10);
      INSERT INTO events VALUES (1, 'x')`;
    const refused = await lossesOf(version, made, 'ALTER TABLE events ALTER v TYPE varchar(10)');
    expect(refused.lost).toEqual([]);
    expect(refused.schema?.changes.filter(({ dataLoss }) => dataLoss)).toEqual([]);
  });

  test('of a dropped partitioned table each partition is told with its rows', async () => {
    const made = `
      CREATE TABLE events (id int) PARTITION BY RANGE (id);
      CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (10);
      INSERT INTO events SELECT generate_series(1, 9)`;
    const { lost } = await lossesOf(version, made, 'DROP TABLE events');
    expect(lost).toEqual([
      {
        object: 'public.events_1',
        kind: 'table',
        what: 'dropped',
        rows: 9,
        rowsWithValue: 9,
        rowsChanged: null,
        exact: true,
      },
    ]);
  });

  test('a dropped column without a value, and a dropped table without a row, lose no data', async () => {
    const made = 'CREATE TABLE t (a int, unused text); INSERT INTO t VALUES (1, NULL); CREATE TABLE empty ()';
    const { schema, lost } = await lossesOf(version, made, 'ALTER TABLE t DROP unused; DROP TABLE empty');
    expect(schema?.changes.map(({ object, dataLoss }) => [object, dataLoss])).toEqual(
      expect.arrayContaining([
        ['public.t.unused', false],
        ['public.empty', false],
      ]),
    );
    expect(lost.map(({ object, rowsWithValue }) => [object, rowsWithValue])).toEqual([
      ['public.empty', 0],
      ['public.t.unused', 0],
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

  test('a dropped column whose name a copy took loses nothing if each row has the same value there', async () => {
    const made = `CREATE TABLE t (id int PRIMARY KEY, v text, w text); INSERT INTO t VALUES (1, 'a', 'a'), (2, NULL, 'b'), (3, 'c', 'c');
      CREATE TABLE keyless (v text); INSERT INTO keyless VALUES ('a')`;
    const copying = (
      table: string,
      value: string,
    ) => `ALTER TABLE ${table} ADD COLUMN copy varchar(10); UPDATE ${table} SET copy = ${value};
      ALTER TABLE ${table} DROP COLUMN v; ALTER TABLE ${table} RENAME COLUMN copy TO v`;
    const same = await lossesOf(version, made, copying('t', 'v'));
    expect({ lost: same.lost, copied: same.data?.copied }).toEqual({ lost: [], copied: ['public.t.v'] });
    expect(same.schema?.changes.filter(({ dataLoss }) => dataLoss)).toEqual([]);
    expect(same.touched.at(-1)).toBe('compared the values of public.t.v');
    for (const other of [copying('t', 'w'), copying('t', "CASE id WHEN 1 THEN 'c' WHEN 3 THEN 'a' END")]) {
      const { lost, data } = await lossesOf(version, made, other);
      expect({ lost, copied: data?.copied }).toMatchObject({
        lost: [{ object: 'public.t.v', rowsWithValue: 2 }],
      });
      expect(data).not.toHaveProperty('copied');
    }
    expect((await lossesOf(version, made, copying('keyless', 'v'))).lost).toMatchObject([
      { object: 'public.keyless.v', rowsWithValue: 1 },
    ]);
  });

  test('a copy of a dropped column that lacks some of its values is told', async () => {
    const made = `CREATE TABLE t (id int PRIMARY KEY, route int, note text);
      INSERT INTO t SELECT n, nullif(n % 10, 0), 'Note ' || n FROM generate_series(1, 100) n; ANALYZE t`;
    const moving = (condition: string) =>
      `CREATE TABLE notes (id int, note text); INSERT INTO notes SELECT id, note FROM t WHERE ${condition};
       ALTER TABLE t DROP note`;
    const filling = (condition: string) =>
      `ALTER TABLE t ADD remark text; UPDATE t SET remark = upper(note) WHERE ${condition}; ALTER TABLE t DROP note`;
    const copyIn = async (sql: string) => (await lossesOf(version, made, sql)).lost.map(({ copy }) => copy);
    const lacking = (column: string) => [{ column, values: 100, missing: 10 }];
    expect(await copyIn(moving('route > 0'))).toEqual(lacking('public.notes.note'));
    expect(await copyIn(filling('route > 0'))).toEqual(lacking('public.t.remark'));
    for (const whole of [moving('true'), filling('true'), moving('id < 20')])
      expect(await copyIn(whole)).toEqual([undefined]);
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

/** A table of 100 rows with a text, a number and a short text in each; of a larger one 150,000. */
const values = (rows: number, more = '', t = 't') => `
  CREATE TABLE ${t} (id int PRIMARY KEY, v text, n numeric(10,2), short varchar(20));
  INSERT INTO ${t} SELECT g, 'Value ' || g, g, 'S' || g FROM generate_series(1, ${rows}) g; ${more}; ANALYZE ${t}`;

const figures = (column: Partial<ConvertedColumn>) => ({
  rows: 100,
  compared: 100,
  values: 100,
  becameNull: 0,
  changed: 0,
  distinctBefore: 100,
  distinctAfter: 100,
  exact: true,
  ...column,
});

/** What ALTER COLUMN does to one column of `values`, and how that is counted. */
const REPLACED: [sql: string, column: string, figures: Partial<ConvertedColumn>][] = [
  ['v TYPE text USING NULL', 'v', { becameNull: 100, distinctAfter: 0 }],
  ['short TYPE text USING NULL', 'short', { becameNull: 100, distinctAfter: 0 }],
  ['n TYPE numeric(20,2) USING 0', 'n', { changed: 100, distinctAfter: 1, spellings: 100 }],
  ['v TYPE text USING left(v, 1)', 'v', { changed: 100, distinctAfter: 1, spellings: 100 }],
  ['v TYPE text USING lower(v)', 'v', { changed: 100 }],
  ['v TYPE int USING length(v)', 'v', { changed: null, distinctAfter: 3, spellings: 100 }],
  [
    "v TYPE text USING CASE id WHEN 2 THEN 'Value 1' ELSE v END",
    'v',
    { changed: 1, distinctAfter: 99, spellings: 100 },
  ],
  [
    'short TYPE varchar(2) USING left(short, 2)',
    'short',
    { changed: 91, cut: 91, distinctAfter: 9, spellings: 100 },
  ],
  // Codes for longer words are no cuts.
  ["short TYPE char(3) USING lpad(id::text, 3, '0')", 'short', { changed: 100 }],
];

const KEPT = [
  'v TYPE text USING trim(v)',
  'n TYPE numeric(20,4) USING n + 0',
  'short TYPE text USING short::text',
];

/** Is run when a test first asks for it. */
function lazily<T>(run: () => Promise<T>): () => Promise<T> {
  let found: Promise<T> | undefined;
  return () => {
    found ??= run();
    return found;
  };
}

describe.each(NEWEST)('values that USING replaces, on %i', (version) => {
  const convertedBy = async (made: string, sql: string, updated = 0) => {
    const { data, schema, lost } = await lossesOf(version, made, sql, updated);
    return { converted: data?.converted, schema, lost };
  };

  /** Each column of a table of its own, t0, t1, …, all in one migration. */
  const all = lazily(() =>
    convertedBy(
      [...REPLACED, ...KEPT].map((_, index) => values(100, '', `t${index}`)).join(';'),
      [...REPLACED.map(([sql]) => sql), ...KEPT]
        .map((sql, index) => `ALTER TABLE t${index} ALTER ${sql}`)
        .join('; '),
    ),
  );
  const ofTable = async (index: number) => {
    const { converted, lost, schema } = await all();
    const isOf = (object: string) => object.startsWith(`public.t${index}.`);
    return {
      converted: converted?.filter(({ object }) => isOf(object)),
      lost: lost.filter(({ object }) => isOf(object)),
      changes: schema?.changes.filter(({ object }) => isOf(object)),
      rollbackLoses: schema?.rollbackLoses.filter((words) => words.includes(`public.t${index}.`)),
    };
  };

  test.each(REPLACED.map((row, index) => [...row, index] as const))(
    '%s',
    async (_, column, expected, index) => {
      const { converted, changes, rollbackLoses } = await ofTable(index);
      expect(converted).toEqual([figures({ object: `public.t${index}.${column}`, ...expected })]);
      expect(changes?.filter(({ dataLoss }) => !dataLoss)).toEqual([]);
      expect(rollbackLoses).not.toEqual([]);
    },
  );

  test.each(KEPT.map((sql, index) => [sql, REPLACED.length + index] as const))(
    '%s replaces nothing',
    async (_, index) => {
      const { converted, lost, changes } = await ofTable(index);
      expect({ converted, lost }).toEqual({ converted: [], lost: [] });
      expect(changes?.filter(({ dataLoss }) => dataLoss)).toEqual([]);
    },
  );

  test('are found if a DO block does it, where rows that it updates are none of them', async () => {
    const sql = (more: string) => `DO $$ BEGIN ALTER TABLE t ALTER v TYPE text USING NULL; ${more} END $$`;
    const { converted } = await convertedBy(values(100), sql(''));
    expect(converted).toEqual([figures({ object: 'public.t.v', becameNull: 100, distinctAfter: 0 })]);
    const update = "UPDATE t SET short = 'x' WHERE id <= 50;";
    const { converted: beside } = await convertedBy(values(100), sql(update), 50);
    expect(beside?.map(({ object }) => object)).toEqual(['public.t.v']);
  });

  test('of a table without a primary key are counted on both sides', async () => {
    const keyless = values(100, 'ALTER TABLE t DROP CONSTRAINT t_pkey');
    const { converted } = await convertedBy(
      keyless,
      'ALTER TABLE t ALTER v TYPE text USING NULL, ALTER n TYPE numeric(12,2) USING n + 0',
    );
    expect(converted).toMatchObject([
      { object: 'public.t.v', becameNull: 100, distinctAfter: 0, exact: true },
    ]);
  });

  test('of a partitioned table are found under new names', async () => {
    const made = `CREATE TABLE p (id int, d int, v text, PRIMARY KEY (id, d)) PARTITION BY LIST (d);
      CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
      INSERT INTO p SELECT g, 1 + g % 2, 'V' || g FROM generate_series(1, 100) g; ANALYZE p`;
    const { converted } = await convertedBy(made, 'ALTER TABLE p ALTER v TYPE text USING lower(v)');
    expect(converted).toEqual([figures({ object: 'public.p.v', changed: 100 })]);
  });

  test('of a large table are compared in a sample', async () => {
    const { converted } = await convertedBy(
      values(150_000),
      'ALTER TABLE t ALTER v TYPE text USING NULL, ALTER short TYPE text USING trim(short)',
    );
    const [v, short] = converted ?? [];
    expect(v?.compared).toBeGreaterThan(1000);
    expect(v?.compared).toBeLessThan(20_000);
    expect(v).toMatchObject({ object: 'public.t.v', becameNull: v?.values, exact: false, rows: 150_000 });
    expect(short).toMatchObject({ object: 'public.t.short', becameNull: 0, changed: 0, exact: false });
  });
});

const accounts = (t: string, settings: string) => `CREATE TABLE ${t} (id int PRIMARY KEY, settings jsonb);
  INSERT INTO ${t} SELECT n, ${settings} FROM generate_series(1, 100) n; ANALYZE ${t}`;
const TWO_KEYS = "jsonb_build_object('language', 'de', 'size', n)";

/** An update, what was there before, and how many rows lose keys. */
const JSON_CASES: [sql: string, settings: string, lost: number | undefined][] = [
  ['UPDATE t SET settings = \'{"beta": 1}\'', TWO_KEYS, 100],
  ["UPDATE t SET settings = '[]'", TWO_KEYS, 100],
  ['UPDATE t SET settings = \'{"beta": 1}\'', "jsonb_build_object('size', n + 1)", 100],
  ['UPDATE t SET settings = settings || \'{"beta": 1}\'', TWO_KEYS, undefined],
  ["UPDATE t SET settings = settings - 'size'", TWO_KEYS, undefined],
  ["UPDATE t SET settings = settings - 'size'", "jsonb_build_object('size', n)", undefined],
  ["UPDATE t SET settings = jsonb_build_object('old', settings)", TWO_KEYS, undefined],
  [
    "UPDATE t SET settings = jsonb_build_object('lang', settings->'language', 'number', settings->'size')",
    TWO_KEYS,
    undefined,
  ],
];

describe.each(NEWEST)('values that UPDATE replaces, on %i', (version) => {
  const overwrittenBy = async (made: string, sql: string, updated: number) => {
    const { data, caveats } = await lossesOf(version, made, sql, updated);
    return {
      overwritten: data?.overwritten?.map(({ object, becameNull }) => [object, becameNull]),
      reasons: caveats.filter(({ path }) => path === 'data.overwritten').map(({ reason }) => reason),
    };
  };
  const EMPTIED = 'UPDATE t SET v = NULL';

  test('are compared by primary key, also under a new name of the table', async () => {
    expect(await overwrittenBy(values(100), EMPTIED, 100)).toEqual({
      overwritten: [['public.t.v', 100]],
      reasons: [],
    });
    expect(await overwrittenBy(values(100), `${EMPTIED}; ALTER TABLE t RENAME TO renamed`, 100)).toEqual({
      overwritten: [['public.t.v', 100]],
      reasons: [],
    });
  });

  test('are not compared without a primary key, which a caveat says', async () => {
    const keyless = values(100, 'ALTER TABLE t DROP CONSTRAINT t_pkey');
    expect(await overwrittenBy(keyless, EMPTIED, 100)).toEqual({
      overwritten: undefined,
      reasons: [expect.stringMatching(/^updated rows of public\.t are not compared .* the same primary key/)],
    });
  });

  test('of few rows of a large table are seldom among those compared, which a caveat says', async () => {
    const few = await overwrittenBy(values(150_000), `${EMPTIED} WHERE id <= 10`, 10);
    expect(few.overwritten).toBeUndefined();
    expect(few.reasons).toEqual([expect.stringContaining('fewer than one row in 64 was updated')]);
    const all = await overwrittenBy(values(150_000), EMPTIED, 150_000);
    expect(all.overwritten?.map(([object]) => object)).toEqual(['public.t.v']);
    expect(all.reasons).toEqual([]);
  });

  test.each(JSON_CASES.map((row, index) => [...row, index] as const))(
    'of JSON objects: %s, of %s',
    async (_, __, lost, index) => {
      const { data } = await json();
      const columns = (data?.overwritten ?? []).filter(({ object }) =>
        object.startsWith(`public.t${index}.`),
      );
      const [column] = columns.filter(({ keysLost }) => keysLost !== undefined);
      expect(column?.keysLost).toBe(lost);
    },
  );
  const json = lazily(() =>
    lossesOf(
      version,
      JSON_CASES.map(([, settings], index) => accounts(`t${index}`, settings)).join(';'),
      JSON_CASES.map(([sql], index) => sql.replace('UPDATE t', `UPDATE t${index}`)).join(';'),
      JSON_CASES.length * 100,
    ),
  );

  const TOUCHED = `CREATE TABLE t (id int PRIMARY KEY, name text, touched_at timestamptz DEFAULT '2026-01-01', search text);
    INSERT INTO t (id, name, search) SELECT n, 'Name ' || n, 'name ' || n FROM generate_series(1, 100) n;
    CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql
      AS 'BEGIN NEW.touched_at := now(); NEW.search := lower(NEW.name) || 1; RETURN NEW; END';
    CREATE TRIGGER touch BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION touch(); ANALYZE t`;

  test.each([
    ['UPDATE t SET name = upper(name)', ['public.t.touched_at']],
    ['UPDATE t SET name = upper(name), touched_at = now()', []],
    // Only the trigger is meant.
    ['UPDATE t SET name = name', []],
    [
      "CREATE OR REPLACE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.touched_at := now() - interval ''1 day''; RETURN NEW; END'; UPDATE t SET name = upper(name)",
      [],
    ],
  ])('by a trigger, in columns that no statement names: %s', async (sql, expected) => {
    const { data } = await lossesOf(version, TOUCHED, sql, 100);
    const found = (data?.overwritten ?? []).filter(({ triggers }) => triggers !== undefined);
    expect(found.map(({ object }) => object)).toEqual(expected);
    for (const column of found) expect(column).toMatchObject({ triggers: ['touch'], changed: 100 });
  });

  test('of a table that the command made are none', async () => {
    const made = `CREATE TABLE t (v text); INSERT INTO t VALUES ('a'); ${EMPTIED}`;
    expect(await overwrittenBy('CREATE TABLE other (id int)', made, 1)).toEqual({
      overwritten: undefined,
      reasons: [],
    });
  });
});
