import { expect, test } from 'vitest';
import { withRewrites } from '../../../src/observe/rewritten-relations.ts';
import { asking, statement } from '../../helpers/facts.ts';
import { sampleReport } from '../../helpers/reports.ts';

const table = { schema: null, name: 'orders' };
const statements = [
  statement(0, { sql: 'VACUUM FULL orders' }),
  statement(1, { sql: 'CLUSTER orders', locks: [['public.orders', 'ACCESS EXCLUSIVE', 5]] }),
  statement(2, { sql: 'ALTER TABLE orders …', locks: [['public.orders', 'ACCESS EXCLUSIVE', 5]] }),
];
const parsed = asking({
  0: { does: 'vacuum', full: true, tables: [table] },
  1: { does: 'cluster', table },
});

function rewrote(...relations: string[]): string[][] {
  const { data } = sampleReport();
  const [like] = data?.tables ?? [];
  if (!data || !like) throw new Error('the sample has no tables');
  const tables = relations.map((relation) => ({ ...like, relation, rewritten: true }));
  return withRewrites(statements, parsed, { ...data, tables }).map((each) => each.rewrote);
}

test('VACUUM FULL rewrote the table that it names, also if another statement did so too', () => {
  expect(rewrote('public.orders')).toEqual([['public.orders'], ['public.orders'], []]);
});

test('VACUUM FULL of a name that tables of several schemas have is not taken for all of them', () => {
  expect(rewrote('public.orders', 'other.orders')).toEqual([['other.orders'], ['public.orders'], []]);
});
