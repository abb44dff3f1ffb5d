import { describe, expect, test } from 'vitest';
import { byTable, changedRows } from '../../../src/hazards/changed-rows.ts';
import { HazardContext } from '../../../src/hazards/hazard-context.ts';
import type { RelationFacts } from '../../../src/model/hazard-facts.ts';
import type { DataSection, StatementSection } from '../../../src/model/report.ts';
import { statementFacts } from '../../../src/observe/statement-facts.ts';
import type { LockMode } from '../../../src/postgres/lock-modes.ts';
import { facts, relation, statement } from '../../helpers/facts.ts';

type Written = Partial<DataSection['written'][number]> & { relation: string };
type Line = Partial<Omit<StatementSection, 'locks'>> & { sql: string; on?: string[] };

const DO = 'DO $$ BEGIN PERFORM fill(); END $$';

/** What the statements of one transaction changed, as `index table rows verb`; `~` marks what was not counted by itself. */
async function changesOf(
  lines: readonly Line[],
  written: readonly Written[],
  relations: Record<string, RelationFacts> = { a: relation(2 ** 20, 5000), b: relation(2 ** 20, 5000) },
  before: Record<string, number> = {},
) {
  const statements = lines.map(({ on = [], ...line }, at) =>
    statement(at + 1, {
      tag: line.sql.split(' ')[0] ?? '',
      transaction: 1,
      locks: on.map((table): [string, LockMode, number] => [`public.${table}`, 'ROW EXCLUSIVE', 5]),
      ...line,
    }),
  );
  const context = new HazardContext(
    facts({
      statements,
      parsed: await statementFacts(statements),
      catalogue: {
        relations: new Map(Object.entries(relations).map(([name, of]) => [`public.${name}`, of])),
      },
      data: {
        tables: Object.entries(before).map(([name, rows]) => ({
          relation: `public.${name}`,
          rowsBefore: rows,
          rowsAfter: rows,
          exact: true,
          bytesBefore: 1,
          bytesAfter: 2,
          rewritten: false,
        })),
        unchangedTables: 0,
        lost: [],
        walBytes: null,
        sizeDeltaBytes: null,
        written: written.map((each) => ({
          inserted: 0,
          updated: 0,
          deleted: 0,
          ...each,
          relation: `public.${each.relation}`,
        })),
      },
    }),
  );
  return byTable(changedRows(context, statements, true))
    .flat()
    .map(
      ({ statement: { index }, relation: table, rows, verb, counted }) =>
        `${index} ${table.replace('public.', '')} ${counted ? '' : '~'}${rows} ${verb}`,
    );
}

describe('changed rows', () => {
  test('are those that a statement names, and those that the server counted beyond them', async () => {
    const update = { sql: 'UPDATE a SET x = 1', rows: 100, on: ['a'] };
    expect(await changesOf([update], [{ relation: 'a', updated: 100 }])).toEqual(['1 a 100 update']);
    expect(await changesOf([update, { sql: DO }], [{ relation: 'a', updated: 400 }])).toEqual([
      '2 a 300 update',
      '1 a 100 update',
    ]);
  });

  test('of a trigger or a foreign key belong to the statement that locked their table', async () => {
    const lines = [
      { sql: 'DELETE FROM a', rows: 50, walBytes: 900, on: ['a', 'b'] },
      { sql: 'SELECT 1', walBytes: 0 },
    ];
    const written = [
      { relation: 'a', deleted: 50 },
      { relation: 'b', deleted: 200 },
    ];
    expect(await changesOf(lines, written)).toEqual(['1 b 200 delete', '1 a 50 delete']);
  });

  test('are shared out among several that may have changed them, by the WAL that each wrote', async () => {
    const lines = [
      { sql: DO, walBytes: 3000, on: ['a'] },
      { sql: DO, walBytes: 1000 },
      { sql: 'SELECT 1', walBytes: 0 },
    ];
    expect(await changesOf(lines, [{ relation: 'a', updated: 400 }])).toEqual([
      '1 a ~300 update',
      '2 a ~100 update',
    ]);
  });

  test('of a statement that failed are counted too, and are nobody else’s', async () => {
    const error = { sqlstate: '40001', message: '' } as unknown as StatementSection['error'];
    const lines = [
      { sql: DO, walBytes: 500, on: ['a'], error },
      { sql: DO, walBytes: 500, on: ['a'] },
    ];
    expect(await changesOf(lines, [{ relation: 'a', updated: 400 }])).toEqual(['2 a ~200 update']);
  });

  test('that ON CONFLICT updates are no new ones', async () => {
    const sql = 'INSERT INTO a SELECT 1 ON CONFLICT (id) DO UPDATE SET x = 1';
    const written = [{ relation: 'a', inserted: 30, updated: 70 }];
    expect(await changesOf([{ sql, rows: 100, on: ['a'] }], written)).toEqual([
      '1 a 70 update',
      '1 a 30 insert',
    ]);
  });

  test('of partitions are those of the table that the statement names', async () => {
    const relations = {
      a: relation(2 ** 20, 5000, 'partitioned table'),
      b: relation(2 ** 20, 5000),
      c: relation(2 ** 20, 5000),
    };
    const lines = [{ sql: 'UPDATE a SET x = 1', rows: 300, on: ['a', 'b', 'c'] }, { sql: DO }];
    const written = [
      { relation: 'b', updated: 100 },
      { relation: 'c', updated: 200 },
    ];
    expect(await changesOf(lines, written, relations)).toEqual(['1 a 300 update']);
  });

  test('of most of a table grow with it, as a profile has it', async () => {
    const relations = { a: relation(2 ** 30, 500_000) };
    const lines = [{ sql: DO, on: ['a'] }];
    const at = (updated: number) => changesOf(lines, [{ relation: 'a', updated }], relations, { a: 5000 });
    expect(await at(5000)).toEqual(['1 a ~500000 update']);
    expect(await at(50)).toEqual(['1 a 50 update']);
  });

  test("of a tool's own lock are left out beside those of a table", async () => {
    const lines = [
      { sql: 'UPDATE b SET is_locked = 1', rows: 1, on: ['b'] },
      { sql: 'UPDATE a SET x = 1', rows: 3000, on: ['a'] },
    ];
    expect(await changesOf(lines, [])).toEqual(['2 a 3000 update']);
  });
});
