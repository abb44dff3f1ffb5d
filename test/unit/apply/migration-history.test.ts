import { describe, expect, test } from 'vitest';
import { bookkeepingOf } from '../../../src/apply/migration-history.ts';

const NOTES = ['SELECT 1', "INSERT INTO schema_migrations VALUES ('a')"];

/** @param transactions the texts that each of them committed. */
function told(transactions: readonly string[][], rehearsed: readonly string[] = NOTES) {
  const all = transactions.flatMap((texts, at) => texts.map((sql) => ({ sql, transaction: at + 1 })));
  const committed = all.map(({ sql }, at) => ({
    statement: at + 1,
    sql,
    outcome: 'committed' as const,
    explicit: true,
  }));
  return bookkeepingOf(
    committed,
    new Map(all.map(({ transaction }, at) => [at + 1, transaction])),
    rehearsed,
  );
}

describe('the history table of a migration tool', () => {
  test.each([
    [
      'each transaction noted what it did',
      [['CREATE TABLE a ()', "INSERT INTO schema_migrations VALUES ('a')"]],
    ],
    ['nothing but the table was made', [['CREATE TABLE schema_migrations (version text)']]],
  ])('the history table agrees if %s', async (_, transactions) => {
    expect(await told(transactions)).toEqual({ agrees: true, unnoted: [] });
  });

  test('the history table does not agree if something was committed without a row in it', async () => {
    expect(
      await told([
        ['CREATE TABLE a ()', "INSERT INTO schema_migrations VALUES ('a')"],
        ['CREATE INDEX CONCURRENTLY i ON a (b)'],
      ]),
    ).toEqual({ agrees: false, unnoted: [3] });
  });

  test.each([
    ['nothing was committed', [], NOTES],
    ['the rehearsal saw no note', [['CREATE TABLE a ()']], ['CREATE TABLE a ()']],
    [
      'notes come in transactions of their own',
      [["INSERT INTO _prisma_migrations VALUES ('a')"], ['CREATE TABLE a ()']],
      NOTES,
    ],
  ])('the history table is not judged if %s', async (_, transactions, rehearsed) => {
    expect(await told(transactions, rehearsed)).toBeNull();
  });
});
