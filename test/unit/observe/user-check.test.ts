import { describe, expect, test } from 'vitest';
import { isBookkeeping } from '../../../src/model/migration-tables.ts';
import { type CheckResult, compareCheck } from '../../../src/observe/checks/user-check.ts';

const rows = (...texts: string[]): CheckResult => {
  const counted = new Map<string, { times: number; shown: string }>();
  for (const text of texts) counted.set(text, { times: (counted.get(text)?.times ?? 0) + 1, shown: text });
  return { kind: 'rows', result: { count: texts.length, rows: counted } };
};
const error: CheckResult = { kind: 'error', sqlstate: '42P01', message: 'no such table' };
const same = { rule: 'same', name: 'SELECT 1' } as const;
const empty = { rule: 'empty', name: 'SELECT 1' } as const;

describe('a check for the same', () => {
  test('passes for the same rows in any order', () => {
    expect(compareCheck(same, rows('a', 'b', 'a'), rows('b', 'a', 'a'))).toMatchObject({
      passed: true,
      rowsBefore: 3,
      rowsAfter: 3,
      missing: [],
      added: [],
    });
  });

  test('fails for a row that is there once more or once less, and for another one', () => {
    expect(compareCheck(same, rows('a'), rows('a', 'a'))).toMatchObject({ passed: false, added: ['a'] });
    expect(compareCheck(same, rows('a', 'a'), rows('a'))).toMatchObject({ passed: false, missing: ['a'] });
    expect(compareCheck(same, rows('a'), rows('b'))).toMatchObject({ missing: ['a'], added: ['b'] });
  });

  test('shows some of many rows', () => {
    const many = compareCheck(same, rows(), rows(...Array.from({ length: 100 }, (_, n) => `row ${n}`)));
    expect(many.added).toHaveLength(5);
    expect(many.rowsAfter).toBe(100);
  });

  test('fails where it cannot be run, and says when', () => {
    expect(compareCheck(same, error, rows())).toMatchObject({ passed: false, error: { when: 'before' } });
    expect(compareCheck(same, rows(), error)).toMatchObject({ passed: false, error: { when: 'after' } });
    expect(compareCheck(same, error, error)).toMatchObject({ passed: false, error: { when: 'before' } });
  });
});

describe('a check for no row', () => {
  test('passes where none is returned after, whatever was before', () => {
    expect(compareCheck(empty, null, rows())).toMatchObject({ passed: true, rowsBefore: null, rowsAfter: 0 });
  });

  test('fails with the rows that are there, and where it cannot be run', () => {
    expect(compareCheck(empty, null, rows('a'))).toMatchObject({ passed: false, added: ['a'] });
    expect(compareCheck(empty, null, error)).toMatchObject({ passed: false, error: { when: 'after' } });
  });
});

describe('the books of a migration tool', () => {
  test.each([
    'public.schema_migrations',
    'public."SequelizeMeta"',
    'drizzle.__drizzle_migrations',
    'public.knex_migrations_lock_index_seq',
    'public.schema_migrations.version',
    'public.flyway_schema_history_s_idx',
    'public.alembic_version.alembic_version_pkc',
  ])('are %s', (object) => {
    expect(isBookkeeping(object)).toBe(true);
  });

  test.each(['public.orders', 'public.migrations_of_birds', 'public.bird_migrations'])(
    'are not %s',
    (object) => {
      expect(isBookkeeping(object)).toBe(false);
    },
  );
});
