import { describe, expect, test } from 'vitest';
import { findHazards } from '../../../src/hazards/catalogue.ts';
import { asking, facts, relation, statement } from '../../helpers/facts.ts';

describe('deleted rows whose references have no index', () => {
  const found = (rows: number, known = true) =>
    findHazards(
      facts({
        statements: [statement(1, { rows, locks: [['public.items', 'ROW EXCLUSIVE', 5]] })],
        parsed: asking({ 1: { does: 'delete', table: { schema: null, name: 'items' } } }),
        catalogue: {
          relations: new Map([
            ['public.items', relation(2 ** 20, 5_000)],
            ['public.parts', relation(2 ** 20, 500_000)],
          ]),
          unindexedForeignKeys: new Map([
            [
              'public.parts.parts_item',
              { relation: 'public.parts', columns: ['item'], references: 'public.items', known },
            ],
          ]),
        },
      }),
    )
      .filter(({ code }) => code === 'FOREIGN_KEY_WITHOUT_INDEX')
      .map(({ severity, statement, message }) => ({ severity, statement, message }));

  test('read the whole table for each', () => {
    const message =
      'each row that is deleted from public.items reads all of public.parts: no index begins with (item)';
    expect(found(20)).toEqual([{ severity: 'warning', statement: 1, message }]);
    expect(found(2)).toEqual([{ severity: 'notice', statement: 1, message }]);
    expect(found(0)).toEqual([]);
  });

  test('are not told of a key that was made after them', () => {
    expect(found(20, false)).toEqual([]);
  });
});
