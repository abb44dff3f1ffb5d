import { describe, expect, test } from 'vitest';
import { findHazards } from '../../../src/hazards/catalogue.ts';
import type { RelationTraffic } from '../../../src/model/hazard-facts.ts';
import type { Action } from '../../../src/model/statement-actions.ts';
import type { LockMode } from '../../../src/postgres/lock-modes.ts';
import { asking, facts, relation, statement } from '../../helpers/facts.ts';

const ITEMS = { schema: null, name: 'items' };
const LOCK: Action = { does: 'lock rows', tables: [ITEMS], all: false };
const LOCK_ALL: Action = { ...LOCK, all: true };
const UPDATE: Action = { does: 'update', table: ITEMS };

interface Given {
  readonly action: Action;
  readonly rows: number;
  readonly mode?: LockMode;
  readonly heldMs?: number;
  readonly explicit?: boolean;
  readonly traffic?: RelationTraffic;
  readonly name?: string;
}

/** Severities of ROWS_LOCKED for one statement of 5 ms. */
function severities({ action, rows, mode = 'ROW SHARE', heldMs = 5, explicit = true, ...more }: Given) {
  const { traffic, name = 'public.items' } = more;
  const found = findHazards(
    facts({
      statements: [statement(1, { rows, explicit, locks: [[name, mode, heldMs]] })],
      parsed: asking({ 1: action }),
      catalogue: { relations: new Map([[name, relation(2 ** 20, 500_000)]]) },
      traffic: traffic ? new Map([[name, traffic]]) : null,
    }),
  );
  return found.filter(({ code }) => code === 'ROWS_LOCKED').map(({ severity }) => severity);
}

describe('rows that stay locked', () => {
  test.each([
    ['all rows', { action: LOCK, rows: 500_000 }, ['warning']],
    ['all rows, of which one is returned', { action: LOCK_ALL, rows: 1 }, ['warning']],
    ['some thousands', { action: LOCK, rows: 2_000 }, ['notice']],
    ['a batch', { action: LOCK, rows: 500 }, []],
    ['one row, for long', { action: UPDATE, rows: 1, heldMs: 3_000 }, ['notice']],
    ['one row, for very long', { action: UPDATE, rows: 1, heldMs: 12_000 }, ['warning']],
    [
      'one row, by a statement that takes long itself',
      { action: UPDATE, rows: 1, explicit: false, heldMs: 3_000 },
      [],
    ],
    [
      'many rows that are changed, which has another code',
      { action: UPDATE, rows: 2_000, heldMs: 3_000 },
      [],
    ],
    ['rows of a table that is locked', { action: LOCK, rows: 2_000, mode: 'EXCLUSIVE' }, []],
    ['no row', { action: UPDATE, rows: 0, heldMs: 3_000 }, []],
  ] as const)('%s', (_, given, expected) => {
    expect(severities(given)).toEqual(expected);
  });

  test('a table that is written weighs more', () => {
    const long = { action: UPDATE, rows: 1, heldMs: 3_000 };
    const traffic = { readsPerSecond: 9, writesPerSecond: 9, insertsPerSecond: 0 };
    expect(severities({ ...long, traffic })).toEqual(['warning']);
    expect(severities({ ...long, traffic: { ...traffic, insertsPerSecond: 9 } })).toEqual(['notice']);
  });

  test("a tool's own table does not count", () => {
    const table = { schema: null, name: 'schema_migrations' };
    const action: Action = { does: 'update', table };
    expect(severities({ action, rows: 1, heldMs: 12_000, name: 'public.schema_migrations' })).toEqual([]);
  });
});
