import { describe, expect, test } from 'vitest';
import { applyHistoryOf, telling } from '../../../src/hazards/apply-history.ts';

describe('what earlier applies tell', () => {
  test('is nothing where there were none, or none took any time', () => {
    expect(applyHistoryOf([])).toBeNull();
    expect(applyHistoryOf([{ times: [[0.4, 2.1]] }, { times: [] }])).toBeNull();
  });

  test('is the band of their times, without the outermost tenths, and of how many', () => {
    const times = Array.from({ length: 11 }, (_, n) => [100, 100 * (n + 1)] as const);
    expect(applyHistoryOf([{ times }, { times: [[1, 1]] }, { times: [[10, 60]] }])).toEqual({
      applies: 2,
      statements: 12,
      low: 2,
      median: 6,
      high: 10,
    });
  });

  test('is kept only of statements that took a noticeable time in one of the two places', () => {
    const noticed = [
      [4.9, 5],
      [30, 2],
    ] as const;
    expect(telling([[4.9, 4.9], ...noticed, [0, 50]])).toEqual(noticed);
  });

  test('leaves out what cannot be divided by', () => {
    expect(
      applyHistoryOf([
        {
          times: [
            [0, 50],
            [10, 20],
          ],
        },
      ]),
    ).toMatchObject({ statements: 1, median: 2 });
  });
});
