import { expect, test } from 'vitest';
import type { StatementSection } from '../../../../src/model/report.ts';
import { formsNoBetter, noBetterWords } from '../../../../src/rehearsal/propose/compare-locks.ts';
import { statement } from '../../../helpers/facts.ts';

test.each([
  ['shorter', { reads: 2000, writes: 2000 }, { reads: 5, writes: 5 }, null],
  [
    'longer',
    { reads: 2000, writes: 2000 },
    { reads: 2800, writes: 2800 },
    /reads .* 2\.8\d? s instead of 2(?:\.0+)? s/,
  ],
  ['as long', { reads: 500, writes: 500 }, { reads: 500, writes: 500 }, /reads/],
  ['for writes only, in place of reads', { reads: 2000, writes: 2000 }, { reads: 2, writes: 3000 }, null],
  [
    'for writes, which are blocked longer',
    { reads: 1, writes: 300 },
    { reads: 2, writes: 310 },
    /^it was tried, and is not better: writes/,
  ],
  ['longer, which a busy machine explains', { reads: 3, writes: 3 }, { reads: 400, writes: 400 }, null],
  ['longer by more than that', { reads: 3, writes: 3 }, { reads: 1200, writes: 1200 }, /reads/],
  ['never, and never before', { reads: 0, writes: 0 }, { reads: 0, writes: 0 }, null],
])('a form that blocks others %s', (_, was, is, words) => {
  if (words === null) expect(noBetterWords(was, is)).toBeNull();
  else expect(noBetterWords(was, is)).toMatch(words);
});

function blocking(index: number, heldMs: number, transaction = index): StatementSection {
  return statement(index, { transaction, locks: [['public.orders', 'ACCESS EXCLUSIVE', heldMs]] });
}

test('a form is compared with the transaction of its statement, and statements that stay are not', () => {
  const parts = [
    { comment: null, statements: ['SET lock_timeout = 1'], begin: null },
    { comment: null, statements: ['one', 'two'], begin: null, instead: 1 },
    { comment: null, statements: ['stays'], begin: null },
    { comment: null, statements: ['three'], begin: null, instead: 3 },
  ];
  const original = [blocking(1, 200, 1), blocking(2, 900, 1), blocking(3, 300)];
  // Two statements of the session come before the script.
  const sent = [0, 0, 0, 10, 800, 5000, 400].map((heldMs, at) => blocking(at + 1, heldMs));
  expect([...formsNoBetter(original, parts, sent).keys()]).toEqual([3]);
});
