import { describe, expect, test } from 'vitest';
import {
  advisoryLockKey,
  markerConnectionLimit,
  newRunId,
  parseRunId,
  RUN_ID_LENGTH,
  startOf,
} from '../../../src/ownership/run-id.ts';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const MOMENTS = [0, 1, 1_700_000_000_000, 1_763_700_000_123, 1_763_700_000_124, 32 ** 9 - 1];

describe('a run id', () => {
  test('sorts as text by the time at which it was made', () => {
    const ids = MOMENTS.map(newRunId);
    expect([...ids].sort()).toEqual(ids);
  });

  test.each(MOMENTS)('tells when it was made: %d', (moment) => {
    expect(startOf(newRunId(moment))).toBe(moment);
  });

  test('is read back as it is, and has its length', () => {
    for (let count = 0; count < 500; count++) {
      const id = newRunId();
      expect(id).toHaveLength(RUN_ID_LENGTH);
      expect(parseRunId(id)).toBe(id);
    }
  });

  test('differs from others of the same millisecond in nearly all cases', () => {
    const ids = new Set(Array.from({ length: 200 }, () => newRunId(1_763_700_000_123)));
    expect(ids.size).toBeGreaterThan(190);
  });

  test('is not recognised with any one character replaced by any other', () => {
    for (const id of MOMENTS.map(newRunId)) {
      for (let at = 0; at < id.length; at++) {
        for (const other of ALPHABET) {
          if (other !== id[at])
            expect(parseRunId(id.slice(0, at) + other + id.slice(at + 1))).toBeUndefined();
        }
      }
    }
  });

  test('is not recognised with any two different characters swapped', () => {
    for (const id of [...MOMENTS.map(newRunId), ...Array.from({ length: 50 }, () => newRunId())]) {
      for (let one = 0; one < id.length; one++) {
        for (let two = one + 1; two < id.length; two++) {
          if (id[one] === id[two]) continue;
          const swapped = [...id];
          [swapped[one], swapped[two]] = [id[two] ?? '', id[one] ?? ''];
          expect(parseRunId(swapped.join(''))).toBeUndefined();
        }
      }
    }
  });

  test.each(['', 'abc', 'u'.repeat(13), 'I'.repeat(13), '0'.repeat(12), '0'.repeat(14), '000000000000\n'])(
    'is not %j',
    (text) => {
      expect(parseRunId(text)).toBeUndefined();
    },
  );

  test('gives a lock key that is a bigint, and a connection limit that nobody sets by hand', () => {
    for (let count = 0; count < 200; count++) {
      const id = newRunId();
      const key = BigInt(advisoryLockKey(id));
      expect(BigInt.asIntN(64, key)).toBe(key);
      expect(advisoryLockKey(id)).toBe(advisoryLockKey(id));
      expect(markerConnectionLimit(id)).toBeGreaterThanOrEqual(1_000_000_000);
      expect(markerConnectionLimit(id)).toBeLessThan(2_000_000_000);
    }
  });
});
