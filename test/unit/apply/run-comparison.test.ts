import { describe, expect, test } from 'vitest';
import { RunComparison } from '../../../src/apply/guardrails/run-comparison.ts';
import { parseText } from '../../../src/postgres/sql/parse.ts';
import { rehearsedOf } from '../../../src/rehearsal/receipts/rehearsed.ts';

/** What the last statement of a run is, compared with a rehearsal of these statements. */
async function compared(rehearsal: readonly string[], run: readonly string[], redacted = false) {
  const sections = rehearsal.map((sql, at) => ({ index: at + 1, sql, durationMs: 1 }));
  const comparison = await RunComparison.with(rehearsedOf(sections), { redacted });
  const answers: string[] = [];
  for (const sql of run) {
    const [parsed = null] = (await parseText(Buffer.from(sql))) ?? [];
    answers.push(comparison.next({ session: 1, sql, parsed }));
  }
  return answers;
}

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
});
