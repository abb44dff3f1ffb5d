import { expect, test } from 'vitest';
import { emptyHistory, emptyHistoryWords } from '../../../src/hazards/empty-history.ts';
import type { RelationFacts } from '../../../src/model/hazard-facts.ts';
import type { StatementSection } from '../../../src/model/report.ts';

const tables = (rows: Readonly<Record<string, number>>) =>
  new Map(
    Object.entries(rows).map(([name, count]): [string, RelationFacts] => [
      name,
      { kind: 'table', sizeBytes: 0, rows: count, exact: true },
    ]),
  );

const failing = (sqlstate: string | null): Pick<StatementSection, 'error'>[] => [
  {
    error:
      sqlstate === null
        ? null
        : { sqlstate, message: '', detail: null, hint: null, position: null, severity: 'ERROR' },
  } as Pick<StatementSection, 'error'>,
];
const SHOP = { 'public.knex_migrations': 0, 'public.knex_migrations_lock': 0, 'public.orders': 0 };

test.each([
  ['a table that exists already', '42P07'],
  ['a type that exists already', '42710'],
  // Prisma's P3005: it sees by itself that the schema is not empty.
  ["the tool's own check", null],
])('an empty history is the reason for a failure by %s', (_, sqlstate) => {
  expect(emptyHistory(tables(SHOP), failing(sqlstate), { exitCode: 1 })).toEqual([
    'public.knex_migrations',
    'public.knex_migrations_lock',
  ]);
});

test.each([
  ['the command succeeded', SHOP, failing(null), 0],
  ['nothing was sent', SHOP, [], 1],
  ['another error', SHOP, failing('23505'), 1],
  ['a history with rows', { ...SHOP, 'public.knex_migrations': 3 }, failing('42P07'), 1],
  ['a database of that tool alone', { 'public.knex_migrations': 0 }, failing('42P07'), 1],
  ['no history', { 'public.orders': 0 }, failing('42P07'), 1],
])('it is not with %s', (_, rows, statements, exitCode) => {
  expect(emptyHistory(tables(rows), statements, { exitCode })).toEqual([]);
});

test('is named with where it is empty', () => {
  const names = ['public.knex_migrations', 'public.knex_migrations_lock'];
  expect(emptyHistoryWords(names, { origin: 'dump' })).toBe(
    'public.knex_migrations is empty in this dump, so that the tool began with its first migration',
  );
  expect(emptyHistoryWords(names, { origin: 'database' })).toContain('in this database');
});
