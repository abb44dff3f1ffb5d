import { describe, expect, test } from 'vitest';
import { applyHistoryOf, telling } from '../../../src/hazards/apply-history.ts';

describe('the times of earlier applies', () => {
  test('there is no apply history without earlier applies, or if none took any time', () => {
    expect(applyHistoryOf([])).toBeNull();
    expect(applyHistoryOf([{ times: [[0.4, 2.1]] }, { times: [] }])).toBeNull();
  });

  test('the apply history is the 10th to the 90th percentile of the ratios, with their number', () => {
    const times = Array.from({ length: 11 }, (_, n) => [100, 100 * (n + 1)] as const);
    expect(applyHistoryOf([{ times }, { times: [[1, 1]] }, { times: [[10, 60]] }])).toEqual({
      applies: 2,
      statements: 12,
      low: 2,
      median: 6,
      high: 10,
    });
  });

  test('only statements that took a noticeable time in the rehearsal or on the target are kept', () => {
    const noticed = [
      [4.9, 5],
      [30, 2],
    ] as const;
    expect(telling([[4.9, 4.9], ...noticed, [0, 50]])).toEqual(noticed);
  });

  test('the apply history leaves out rehearsed times of zero', () => {
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
