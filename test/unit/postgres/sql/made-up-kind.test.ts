import type * as Tree from 'libpg-query';
import { expect, test } from 'vitest';
import { classifyScope } from '../../../../src/boundary/statement-scope.ts';
import {
  actionsOf,
  effectOf,
  inBlock,
  isHarmlessElsewhere,
  mayRunUserCode,
  namedLocks,
  nameOfStatement,
  releasedLocks,
} from '../../../../src/postgres/sql/classify-statement.ts';
import { lockOn } from '../../../../src/postgres/sql/query-locks.ts';
import { STATEMENT_KINDS } from '../../../../src/postgres/sql/statement-kinds.ts';
import type { StatementProperties } from '../../../../src/postgres/sql/statement-properties.ts';
import { nameOf } from '../../../../src/postgres/sql/tree.ts';

const NAMES = { target: 'shop', clone: 'copy' };

/** A row for a statement that no version has. */
const DEFRAGMENT: StatementProperties<{ relation?: Tree.RangeVar; concurrent?: boolean }> = {
  name: 'DEFRAGMENT',
  effect: 'storage',
  reach: 'database',
  inBlock: ({ concurrent }) => (concurrent ? 'refused' : 'same'),
  actions: ({ relation }) => [{ does: 'cluster', table: nameOf(relation) }],
  locks: ({ relation }) => lockOn(relation, 'ACCESS EXCLUSIVE'),
  releases: ({ relation, concurrent }) => (concurrent ? lockOn(relation, 'SHARE UPDATE EXCLUSIVE') : []),
};

test('a row is all that a new kind of statement takes', () => {
  const node = { DefragmentStmt: { relation: { relname: 't' }, concurrent: true } };
  const table = { schema: null, name: 't' };
  Object.assign(STATEMENT_KINDS, { DefragmentStmt: DEFRAGMENT });
  try {
    expect(nameOfStatement(node)).toBe('DEFRAGMENT');
    expect(effectOf(node)).toBe('storage');
    expect(inBlock(node)).toBe('refused');
    expect(classifyScope(node, NAMES)).toEqual({ kind: 'within' });
    expect(isHarmlessElsewhere(node) || mayRunUserCode(node)).toBe(false);
    expect(actionsOf(node)).toEqual([{ does: 'cluster', table }]);
    expect(namedLocks(node)).toEqual([{ relation: table, mode: 'ACCESS EXCLUSIVE' }]);
    expect(releasedLocks(node)).toEqual([{ relation: table, mode: 'SHARE UPDATE EXCLUSIVE' }]);
  } finally {
    Reflect.deleteProperty(STATEMENT_KINDS, 'DefragmentStmt');
  }
  expect(classifyScope(node, NAMES)).toMatchObject({ kind: 'beyond', leaves: 'server' });
});

test('a row without a reach does not compile', () => {
  // @ts-expect-error reach is missing
  const row: StatementProperties<object> = { name: 'DEFRAGMENT', effect: 'storage' };
  expect(row).not.toHaveProperty('reach');
});
