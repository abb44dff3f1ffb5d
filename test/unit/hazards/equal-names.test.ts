import { describe, expect, test } from 'vitest';
import { HazardContext } from '../../../src/hazards/hazard-context.ts';
import type { Action } from '../../../src/model/statement-actions.ts';
import { facts, relation, statement } from '../../helpers/facts.ts';

const orders = { schema: null, name: 'orders' };

describe('a name that several schemas have', () => {
  const contextOf = (...actions: readonly (readonly [index: number, action: Action])[]) =>
    new HazardContext(
      facts({
        statements: [
          statement(1),
          statement(2),
          statement(3, { locks: [['b.orders', 'ACCESS EXCLUSIVE', 1]] }),
        ],
        parsed: new Map(
          actions.map(([index, action]) => [index, { actions: [action], effect: 'none' as const }]),
        ),
        catalogue: {
          relations: new Map(['a', 'b', 'c'].map((schema) => [`${schema}.orders`, relation(1, 1)])),
          searchPath: ['app', 'c'],
        },
      }),
    );
  const setTo = (schemas: readonly string[] | null): Action => ({
    does: 'set search_path' as const,
    schemas,
    local: false,
  });

  test('is the first in the search path of the session', () => {
    expect(contextOf().resolve(orders, statement(2))).toBe('c.orders');
    expect(contextOf([1, setTo(['b', 'a'])]).resolve(orders, statement(2))).toBe('b.orders');
    expect(contextOf([1, setTo(null)]).resolve(orders, statement(2))).toBe('c.orders');
    expect(contextOf([1, setTo(['b'])]).resolve(orders, statement(2, { session: 7 }))).toBe('c.orders');
  });

  test('is the one that its transaction holds locked, whatever the search path is', () => {
    const context = contextOf();
    const [, , locking] = context.facts.statements;
    expect(locking && context.resolve(orders, locking)).toBe('b.orders');
  });
});
