import { expect, test } from 'vitest';
import { casesOf } from '../helpers/share.ts';

const LIST = ['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'b1', 'b2', 'c1'];
const familyOf = (name: string) => name[0];
const SHARES = [1, 2, 3, 4].map((number) => casesOf(`${number}/4`, LIST, familyOf));

test('all shares together have every case, and each has one of every family', () => {
  expect([...new Set(SHARES.flat())].sort()).toEqual(LIST);
  for (const share of SHARES) expect([...new Set(share.map(familyOf))]).toEqual(['a', 'b', 'c']);
});

test('a share has no more than its part of a family, in the order of the list', () => {
  for (const share of SHARES) {
    expect(share.filter((name) => familyOf(name) === 'a').length).toBeLessThanOrEqual(2);
    expect(share).toEqual(share.toSorted());
  }
});

test.each(['5/4', '0/4', 'half', ''])('SAFEMIGRATE_TEST_SHARE=%s is refused', (share) => {
  expect(() => casesOf(share, LIST, familyOf)).toThrow('write 1/4, or all');
});
