import { expect, test } from 'vitest';
import { HazardContext } from '../../../src/hazards/hazard-context.ts';
import type { RecordedTransaction } from '../../../src/model/hazard-facts.ts';
import type { LockMode } from '../../../src/postgres/lock-modes.ts';
import type { Unit } from '../../../src/propose/kept-statements.ts';
import { locksFirst } from '../../../src/propose/locks-first.ts';
import { facts, relation, statement } from '../../helpers/facts.ts';

/** Writes the locks of a transaction that takes these, one statement each. */
function lockedBy(locks: readonly [string, LockMode][], recorded: readonly RecordedTransaction[] = []) {
  const statements = locks.map(([name, mode], at) =>
    statement(at + 1, { transaction: 1, locks: [[name, mode, 5]] }),
  );
  const relations = new Map([
    ...['a', 'b', 'c'].map((name) => [`public.${name}`, relation(1e6, 100)] as const),
    ['public.m', relation(1e6, 100, 'materialized view')] as const,
  ]);
  const context = new HazardContext(facts({ statements, recorded, catalogue: { relations } }));
  return locksFirst(context, statements.map((section) => ({ section })) as unknown as Unit);
}

const STRONG = 'ACCESS EXCLUSIVE';

test('all locks are taken by one statement, in the order of the transaction', () => {
  expect(
    lockedBy([
      ['public.b', STRONG],
      ['public.a', STRONG],
    ]),
  ).toEqual(['LOCK TABLE ONLY public.b, ONLY public.a IN ACCESS EXCLUSIVE MODE']);
});

test('the order of the application takes precedence, as far as it was seen', () => {
  const seen = { relations: ['public.a', 'public.b'], unordered: [] };
  const locks: [string, LockMode][] = [
    ['public.b', STRONG],
    ['public.c', STRONG],
    ['public.a', STRONG],
  ];
  expect(lockedBy(locks, [seen])).toEqual([
    'LOCK TABLE ONLY public.c, ONLY public.a, ONLY public.b IN ACCESS EXCLUSIVE MODE',
  ]);
  const unseen = { relations: ['public.a', 'public.b'], unordered: [['public.a', 'public.b'] as const] };
  expect(lockedBy(locks, [unseen])).toEqual([
    'LOCK TABLE ONLY public.b, ONLY public.c, ONLY public.a IN ACCESS EXCLUSIVE MODE',
  ]);
});

test('each table is locked in the strongest mode that the transaction takes, and those between two strong ones too', () => {
  expect(
    lockedBy([
      ['public.a', 'SHARE ROW EXCLUSIVE'],
      ['public.b', STRONG],
      ['public.a', 'SHARE'],
    ]),
  ).toEqual([
    'LOCK TABLE ONLY public.a IN SHARE ROW EXCLUSIVE MODE',
    'LOCK TABLE ONLY public.b IN ACCESS EXCLUSIVE MODE',
  ]);
  expect(
    lockedBy([
      ['public.a', STRONG],
      ['public.b', 'SHARE'],
      ['public.c', STRONG],
    ]),
  ).toEqual(['LOCK TABLE ONLY public.a, ONLY public.b, ONLY public.c IN ACCESS EXCLUSIVE MODE']);
});

test('there is nothing to lock first for one table, and LOCK TABLE takes no materialized view', () => {
  expect(
    lockedBy([
      ['public.a', STRONG],
      ['public.a', STRONG],
    ]),
  ).toBeNull();
  expect(
    lockedBy([
      ['public.a', STRONG],
      ['public.m', STRONG],
    ]),
  ).toBeNull();
});
