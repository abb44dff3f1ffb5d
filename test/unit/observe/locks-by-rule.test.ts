import { expect, test } from 'vitest';
import { withLocksByRule } from '../../../src/observe/locks-by-rule.ts';
import type { RelationTree } from '../../../src/observe/relation-names.ts';
import { statementFacts } from '../../../src/observe/statement-facts.ts';
import { statement } from '../../helpers/facts.ts';

const relation = (name: string, kind: string, of: { table?: number; parent?: number } = {}) => ({
  name,
  kind,
  table: of.table ?? null,
  parent: of.parent ?? null,
});
const TREE: RelationTree = new Map([
  [1, relation('public.parted', 'p')],
  [2, relation('public.part', 'r', { parent: 1 })],
  [3, relation('public.part_at', 'i', { table: 2 })],
  [4, relation('public.t', 'r')],
  [5, relation('public.t_pkey', 'i', { table: 4 })],
]);

async function ruled(sql: string, exactness: 'exact' | 'sampled') {
  const sent = { ...statement(1, { sql, locks: [] }), exactness };
  const parsed = await statementFacts([sent]);
  const [found] = withLocksByRule([sent], { parsed, tree: TREE, made: new Set(), searchPath: ['public'] });
  return {
    exactness: found?.exactness,
    locks: found?.locks?.map(({ relation, mode }) => `${relation} ${mode}`),
  };
}

test.each([
  ['REINDEX TABLE parted', ['public.parted SHARE', 'public.part SHARE', 'public.part_at ACCESS EXCLUSIVE']],
  [
    'REPACK parted',
    ['public.parted ACCESS EXCLUSIVE', 'public.part ACCESS EXCLUSIVE', 'public.part_at ACCESS EXCLUSIVE'],
  ],
])('%s commits after each partition, whatever was read at its end', async (sql, locks) => {
  expect(await ruled(sql, 'exact')).toEqual({ exactness: 'sampled', locks });
});

test.each(['REINDEX TABLE t', 'CLUSTER t USING t_pkey', 'REPACK t', 'ANALYZE t', 'ANALYZE parted'])(
  '%s is as exact as it was read',
  async (sql) => {
    expect(await ruled(sql, 'exact')).toEqual({ exactness: 'exact', locks: [] });
  },
);

test('REPACK (ANALYZE) has released the lock of its copy when it ends', async () => {
  expect(await ruled('REPACK (ANALYZE) t', 'sampled')).toEqual({
    exactness: 'sampled',
    locks: ['public.t ACCESS EXCLUSIVE', 'public.t_pkey ACCESS EXCLUSIVE'],
  });
});
