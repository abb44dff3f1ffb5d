import { expect, test } from 'vitest';
import { lockWaitsBetween } from '../../../src/database/read-lock-waits.ts';

const at = (overMs: number, waits: number, waitedMs: number, more: [string, number, number][] = []) => ({
  longerThanMs: 1000,
  overMs,
  kinds: [['relation', waits, waitedMs] as const, ...more].map(([kind, count, ms]) => ({
    kind,
    waits: count,
    waitedMs: ms,
  })),
});

test('the waits between two readings are those that were counted in between, by kind', () => {
  expect(lockWaitsBetween(at(10_000, 3, 4000), at(15_000, 5, 9000, [['tuple', 1, 1100]]))).toEqual({
    longerThanMs: 1000,
    overMs: 5000,
    kinds: [
      { kind: 'relation', waits: 2, waitedMs: 5000 },
      { kind: 'tuple', waits: 1, waitedMs: 1100 },
    ],
  });
  expect(lockWaitsBetween(at(1, 3, 4000), at(2, 3, 4000))?.kinds).toEqual([]);
});

test('a server that counts no waits has none between two readings', () => {
  expect(lockWaitsBetween(null, null)).toBeNull();
});
