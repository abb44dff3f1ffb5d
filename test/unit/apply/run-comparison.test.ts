import { describe, expect, test } from 'vitest';
import { compareRuns } from '../../helpers/compare-runs.ts';

const compared = (rehearsal: readonly string[], run: readonly string[], redacted = false) =>
  compareRuns(rehearsal, run, { redacted });

/** Statements of a tool that makes up names, which differ in each run. */
const made = (name: string, number = 1) => [
  'BEGIN',
  `SAVEPOINT sp_${name}`,
  `DECLARE "_django_curs_${name}_sync_1" NO SCROLL CURSOR WITH HOLD FOR SELECT id FROM ports WHERE id > ${number}`,
  `FETCH FORWARD 100 FROM "_django_curs_${name}_sync_1"`,
  `UPDATE ports SET done = true WHERE CURRENT OF "_django_curs_${name}_sync_1"`,
  `CLOSE "_django_curs_${name}_sync_1"`,
  `RELEASE SAVEPOINT sp_${name}`,
  `PREPARE p${name} (int) AS UPDATE ports SET id = $1 WHERE id = ${number}`,
  `EXECUTE p${name} (${number})`,
  `DEALLOCATE p${name}`,
  `EXPLAIN SELECT * FROM ports WHERE id = ${number}`,
  `CREATE TEMP TABLE tmp_${name} (id int DEFAULT ${number})`,
  `CREATE INDEX tmp_${name}_idx ON tmp_${name} (id)`,
  `ALTER TABLE tmp_${name} ADD COLUMN note text`,
  `INSERT INTO tmp_${name} SELECT id FROM ports`,
  `SELECT * INTO TEMP other_${name} FROM ports`,
  `ANALYZE tmp_${name}`,
  `CREATE TABLE kept AS SELECT * FROM pg_temp.tmp_${name} JOIN other_${name} USING (id)`,
  `DROP TABLE tmp_${name}, other_${name}`,
  'COMMIT',
];

test('a text of more than 2 MB, of which the rehearsal has the size alone, is not compared', async () => {
  const large = (begin: string) => `${begin} /* ${'x'.repeat(2 * 1024 * 1024)} */`;
  const run = [large('INSERT INTO t VALUES (1)'), large('DO $$ $$'), 'DROP TABLE t'];
  expect(await compared(['[a text of 2097184 bytes]'], run)).toEqual([
    'rehearsed',
    'rehearsed',
    'not rehearsed',
  ]);
});

describe('names that a tool makes up for its session', () => {
  test('may be others in each run, and so may the literals of what they name', async () => {
    const answers = await compared(made('a1b2'), made('f00d', 7));
    expect(answers.filter((answer) => answer !== 'rehearsed')).toEqual([]);
    const redacted = await compared(made('a1b2'), made('f00d', 7), true);
    expect(redacted.filter((answer) => answer !== 'rehearsed')).toEqual([]);
  });

  test('may be more of them than in the rehearsal', async () => {
    const run = [...made('x1'), ...made('x2'), ...made('x3')];
    expect((await compared(made('a1'), run)).filter((answer) => answer !== 'rehearsed')).toEqual([]);
  });

  test('do not end the search for the point at which a value differs', async () => {
    const run = (name: string) => [
      `CREATE TEMP TABLE tmp_${name} (id int)`,
      `ALTER TABLE t ALTER COLUMN key SET DEFAULT '${name}'`,
    ];
    expect(await compared(run('a'), run('b'))).toEqual(['rehearsed', 'other values']);
  });

  test.each([
    [
      'a cursor over another table',
      'DECLARE c1 CURSOR FOR SELECT 1 FROM a',
      ['DECLARE c2 CURSOR FOR SELECT 1 FROM b'],
    ],
    [
      'a cursor that locks rows',
      'DECLARE c1 CURSOR FOR TABLE a',
      ['DECLARE c2 CURSOR FOR TABLE a FOR UPDATE'],
    ],
    [
      'another prepared statement',
      'PREPARE p1 AS DELETE FROM a WHERE id = $1',
      ['PREPARE p2 AS DELETE FROM a'],
    ],
    ['a plan that is run', 'EXPLAIN DELETE FROM a', ['EXPLAIN ANALYZE DELETE FROM a']],
    ['a permanent table', 'CREATE TEMP TABLE t1 (id int)', ['CREATE TABLE t2 (id int)']],
    [
      'a temporary table of other columns',
      'CREATE TEMP TABLE t1 (id int)',
      ['CREATE TEMP TABLE t2 (id text)'],
    ],
    ['a permanent index', 'CREATE INDEX i1 ON a (id)', ['CREATE INDEX i2 ON a (id)']],
    [
      'the drop of another table',
      'CREATE TEMP TABLE t1 (id int)',
      ['CREATE TEMP TABLE t2 (id int)', 'DROP TABLE a'],
    ],
  ])('are not what makes %s pass', async (_what, rehearsed, run) => {
    expect((await compared([rehearsed, 'DROP TABLE t1'], run)).at(-1)).toBe('not rehearsed');
  });

  test('stand for what they were defined as', async () => {
    const prepared = ['PREPARE a AS INSERT INTO t VALUES (1)', 'PREPARE b AS DELETE FROM t'];
    const rehearsal = [...prepared, 'EXECUTE a'];
    const [, other] = ['PREPARE c AS INSERT INTO t VALUES (2)', 'PREPARE d AS DELETE FROM t'];
    expect(await compared(rehearsal, [other ?? '', 'EXECUTE d'])).toEqual(['rehearsed', 'not rehearsed']);
    expect(await compared(rehearsal, ['PREPARE c AS INSERT INTO t VALUES (2)', 'EXECUTE c'])).toEqual([
      'rehearsed',
      'rehearsed',
    ]);
  });

  test('are themselves if the rehearsal had them: two tables of the same columns are not one', async () => {
    const tables = ['CREATE TEMP TABLE old (id int)', 'CREATE TEMP TABLE new (id int)'];
    const rehearsal = [...tables, 'CREATE TABLE kept AS TABLE new'];
    expect((await compared(rehearsal, [...tables, 'CREATE TABLE kept AS TABLE old'])).at(-1)).toBe(
      'not rehearsed',
    );
  });

  test('mean nothing once they are dropped', async () => {
    const rehearsal = ['CREATE TEMP TABLE tmp_1 (id int)', 'DROP TABLE tmp_1'];
    const run = ['CREATE TEMP TABLE orders (id int)', 'DROP TABLE orders', 'DROP TABLE orders'];
    expect(await compared(rehearsal, run)).toEqual(['rehearsed', 'rehearsed', 'not rehearsed']);
  });

  test.each([
    ['a rollback', ['BEGIN', 'CREATE TEMP TABLE t (id int)', 'ROLLBACK']],
    ['a rollback to a savepoint', ['BEGIN', 'SAVEPOINT s', 'CREATE TEMP TABLE t (id int)', 'ROLLBACK TO s']],
    ['the commit on which it is dropped', ['BEGIN', 'CREATE TEMP TABLE t (id int) ON COMMIT DROP', 'COMMIT']],
    ['DISCARD ALL', ['CREATE TEMP TABLE t (id int)', 'DISCARD ALL']],
    ['DISCARD TEMP', ['CREATE TEMP TABLE t (id int)', 'DISCARD TEMP']],
    ['its drop', ['CREATE TEMP TABLE t (id int)', 'DROP TABLE t']],
  ])('mean a permanent table again after %s', async (_how, ending) => {
    const inTime = ending.slice(0, -1);
    const rehearsal = [...inTime, 'DELETE FROM t', ...ending.slice(-1)];
    expect((await compared(rehearsal, [...inTime, 'DELETE FROM t'])).at(-1)).toBe('rehearsed');
    expect((await compared(rehearsal, [...ending, 'DELETE FROM t'])).at(-1)).toBe('not rehearsed');
  });

  test('are not made up if a relation of the target has them', async () => {
    const run = ['CREATE TEMP TABLE orders (id int)', 'DELETE FROM orders'];
    const rehearsal = ['CREATE TEMP TABLE tmp_1 (id int)', 'DELETE FROM tmp_1'];
    const target = { relations: ['orders'] };
    expect(await compareRuns(rehearsal, run)).toEqual(['rehearsed', 'rehearsed']);
    expect(await compareRuns(rehearsal, run, { target })).toEqual(['not rehearsed', 'not rehearsed']);
  });
});

describe('settings that decide what a statement means', () => {
  const deletion = 'DELETE FROM t';
  const last = async (rehearsal: readonly string[], run: readonly string[], redacted = false) =>
    (await compared(rehearsal, run, redacted)).at(-1);

  test.each([
    ['SET', 'SET search_path = public', 'SET search_path = other'],
    ['SET LOCAL', 'SET LOCAL search_path = public', 'SET LOCAL search_path = other'],
    [
      'set_config()',
      "SELECT set_config('search_path', 'public', false)",
      "SELECT set_config('search_path', 'other', false)",
    ],
    ['SET ROLE', 'SET ROLE a', 'SET ROLE b'],
    ['SET SESSION AUTHORIZATION', 'SET SESSION AUTHORIZATION a', 'SET SESSION AUTHORIZATION b'],
    ['session_replication_role', 'RESET session_replication_role', 'SET session_replication_role = replica'],
    ['row_security', 'SET row_security = on', 'SET row_security = off'],
    ['a name that is put together', 'SELECT 1', "SELECT set_config('search' || '_path', 'other', false)"],
  ])('make another statement of it: %s', async (_how, rehearsed, sent) => {
    expect(await last([rehearsed, deletion], [rehearsed, deletion])).toBe('rehearsed');
    expect(await last([rehearsed, deletion], [sent, deletion])).toBe('other settings');
    expect(await last([rehearsed, deletion], [sent, 'DISCARD ALL', rehearsed, deletion])).toBe('rehearsed');
  });

  test('make another statement of a definition too', async () => {
    const table = 'CREATE TABLE t (id int)';
    expect(await last(['SET search_path = a', table], ['SET search_path = b', table])).toBe('other settings');
  });

  test('count where they stand: two rehearsed ones are not each other', async () => {
    const of = (schema: string, table: string) => [`SET search_path = ${schema}`, `DELETE FROM ${table}`];
    const rehearsal = [...of('a', 'one'), ...of('b', 'two')];
    expect(await compared(rehearsal, [...of('b', 'two'), ...of('a', 'one')])).toEqual(
      Array(4).fill('rehearsed'),
    );
    expect(await last(rehearsal, of('b', 'one'))).toBe('other settings');
  });

  test.each([
    ['COMMIT after SET LOCAL', ['BEGIN', 'SET LOCAL search_path = b', 'COMMIT']],
    ['ROLLBACK', ['BEGIN', 'SET search_path = b', 'ROLLBACK']],
    ['ROLLBACK TO', ['BEGIN', 'SAVEPOINT s', 'SET search_path = b', 'ROLLBACK TO s']],
    ['RESET', ['SET search_path = b', 'RESET search_path']],
    ['RESET ALL', ['SET search_path = b', 'RESET ALL']],
    ['DEFAULT', ['SET search_path = b', 'SET search_path TO DEFAULT']],
  ])('end with %s', async (_how, statements) => {
    expect(await last([deletion], [...statements, deletion])).toBe('rehearsed');
    expect(await last([deletion], [...statements.slice(0, -1), deletion])).toBe('other settings');
  });

  test('are of one session', async () => {
    expect(await last([deletion], ['SET search_path = b', deletion])).toBe('other settings');
  });

  test.each(['SET lock_timeout = 1', 'SET application_name = x', 'SET work_mem = 64', 'SET jit = off'])(
    'are not those of time and messages: %s',
    async (set) => expect(await last([deletion], [set, deletion])).toBe('rehearsed'),
  );

  test('of an application are compared by their names', async () => {
    expect(await compared(["SET app.actor = 'a'"], ["SET app.actor = 'b'", 'SET app.tenant = 1'])).toEqual([
      'rehearsed',
      'not rehearsed',
    ]);
  });

  test('are compared by their names after a redacted rehearsal', async () => {
    const rehearsal = ["SET search_path = '…'", deletion];
    expect(await last(rehearsal, ['SET search_path = a', deletion], true)).toBe('rehearsed');
    expect(await last(rehearsal, ['SET role = a', deletion], true)).toBe('other settings');
  });
});

describe('a literal that a function executes', () => {
  const options = { target: { executing: ['run_text'] } };
  test('is compared', async () => {
    const run = ["SELECT run_text('DROP TABLE b')", "SELECT other('DROP TABLE b')"];
    const rehearsal = ["SELECT run_text('DROP TABLE a')", "SELECT other('DROP TABLE a')"];
    expect(await compareRuns(rehearsal, run, options)).toEqual(['not rehearsed', 'rehearsed']);
    expect(await compareRuns(rehearsal, rehearsal, options)).toEqual(['rehearsed', 'rehearsed']);
  });
});
