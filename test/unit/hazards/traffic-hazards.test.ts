import { describe, expect, test } from 'vitest';
import { HazardContext } from '../../../src/hazards/hazard-context.ts';
import { TRAFFIC_HAZARDS } from '../../../src/hazards/traffic-hazards.ts';
import type { HazardFacts } from '../../../src/model/hazard-facts.ts';
import { facts, relation, statement } from '../../helpers/facts.ts';

const busy = { readsPerSecond: 100, writesPerSecond: 50, insertsPerSecond: 10 };
const quiet = { readsPerSecond: 0, writesPerSecond: 0, insertsPerSecond: 0 };

const update = statement(1, {
  tag: 'UPDATE',
  rows: 500,
  locks: [['public.orders', 'ROW EXCLUSIVE', 2000]],
  transaction: 1,
});
const alter = (index: number, table: string, transaction = 1) =>
  statement(index, {
    tag: 'ALTER TABLE',
    locks: [[`public.${table}`, 'ACCESS EXCLUSIVE', 50]],
    transaction,
  });

function found(given: Partial<HazardFacts>) {
  const context = new HazardContext(
    facts({
      parsed: new Map([
        [
          1,
          {
            actions: [{ does: 'update' as const, table: { schema: 'public', name: 'orders' } }],
            effect: 'rows' as const,
          },
        ],
      ]),
      ...given,
      catalogue: {
        relations: new Map([
          ['public.orders', relation(2 ** 20, 1000)],
          ['public.stock', relation(2 ** 20, 1000)],
        ]),
      },
    }),
  );
  return TRAFFIC_HAZARDS.flatMap(({ code, find }) =>
    find(context).map(({ severity, statement: at, message }) => [code, severity, at, message] as const),
  );
}

describe('hazards of the traffic on the target', () => {
  test('rows that stay locked are weighed by the UPDATEs and DELETEs that come to them', () => {
    const traffic = new Map([['public.orders', busy]]);
    expect(found({ statements: [update], traffic })).toMatchObject([
      ['ROW_CONFLICTS', 'warning', 1, expect.stringContaining('about 40 UPDATEs and DELETEs')],
    ]);
    expect(found({ statements: [update], traffic: new Map([['public.orders', quiet]]) })).toEqual([]);
    expect(found({ statements: [update], traffic: null })).toEqual([]);
  });

  test('two tables in use, locked by two statements of one transaction, may deadlock', () => {
    const traffic = new Map([
      ['public.orders', busy],
      ['public.stock', busy],
    ]);
    const statements = [alter(2, 'orders'), alter(3, 'stock')];
    expect(found({ statements, traffic })).toMatchObject([['DEADLOCK_RISK', 'error', 3, expect.anything()]]);
    const beside = (readsPerSecond: number) =>
      found({
        statements,
        traffic: new Map([
          ...traffic,
          ['public.stock', { readsPerSecond, writesPerSecond: 1, insertsPerSecond: 0 }],
        ]),
      });
    expect(beside(20)).toMatchObject([['DEADLOCK_RISK', 'warning', 3, expect.anything()]]);
    expect(beside(1), 'nobody is likely to come within 150 ms').toEqual([]);
    expect(found({ statements: [alter(2, 'orders'), alter(3, 'stock', 2)], traffic })).toEqual([]);
    expect(found({ statements, traffic: new Map([...traffic, ['public.stock', quiet]]) })).toEqual([]);
  });

  test('transactions that were recorded decide by the order in which they lock the two tables', () => {
    const traffic = new Map([
      ['public.orders', busy],
      ['public.stock', busy],
    ]);
    const statements = [alter(2, 'orders'), alter(3, 'stock')];
    const severity = (...recorded: NonNullable<HazardFacts['recorded']>) =>
      found({ statements, traffic, recorded }).map(([, each]) => each);
    const inOrder = { relations: ['public.orders', 'public.items', 'public.stock'], unordered: [] };
    const against = { relations: ['public.stock', 'public.orders'], unordered: [] };
    const unseen = { ...inOrder, unordered: [['public.stock', 'public.orders']] as [string, string][] };
    const alone = { relations: ['public.stock'], unordered: [] };
    expect(severity(inOrder, alone)).toEqual([]);
    expect(severity(inOrder, against)).toEqual(['error']);
    expect(severity(inOrder, unseen)).toEqual(['error']);
    expect(severity(alone)).toEqual(['warning']);
  });

  test('locks fill the table of the target, not that of the clone', () => {
    const statements = [
      statement(2, {
        tag: 'ALTER TABLE',
        locks: Array.from({ length: 60 }, (_, n) => [`public.p${n}`, 'ACCESS EXCLUSIVE', 1] as const),
        transaction: 1,
      }),
    ];
    const filled = (capacity: number, held: number) =>
      found({ statements, lockTable: { capacity, held } }).map(([code, severity]) => [code, severity]);
    expect(filled(100, 0)).toEqual([['LOCK_TABLE_FULL', 'warning']]);
    expect(filled(100, 40)).toEqual([['LOCK_TABLE_FULL', 'error']]);
    expect(filled(6400, 6000)).toEqual([]);
    expect(filled(6400, 0)).toEqual([]);
  });
});
