import { expect, test } from 'vitest';
import { withRewrites } from '../../../src/observe/rewritten-relations.ts';
import { asking, statement } from '../../helpers/facts.ts';
import { sampleReport } from '../../helpers/reports.ts';

test('VACUUM FULL rewrote the table that it names, also if another statement did so too', () => {
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
  const { data } = sampleReport();
  const [like] = data?.tables ?? [];
  if (!data || !like) throw new Error('the sample has no tables');
  const tables = [{ ...like, relation: 'public.orders', rewritten: true }];
  const rewrote = withRewrites(statements, parsed, { ...data, tables }).map((each) => each.rewrote);
  expect(rewrote).toEqual([['public.orders'], ['public.orders'], []]);
});
