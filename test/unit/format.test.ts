import { expect, test } from 'vitest';
import {
  formatBytes,
  formatBytesDelta,
  formatCount,
  formatDuration,
  formatRate,
  formatTime,
  plural,
} from '../../src/format.ts';

const MB = 1024 ** 2;
const GB = 1024 ** 3;

test.each([
  [0, '0 ms'],
  [0.01, '<0.1 ms'],
  [0.4, '0.4 ms'],
  [9.94, '9.9 ms'],
  [9.96, '10 ms'],
  [12.3, '12 ms'],
  [999.4, '999 ms'],
  [999.6, '1.0 s'],
  [3210, '3.2 s'],
  [59_940, '59.9 s'],
  [59_960, '1 min 0 s'],
  [252_000, '4 min 12 s'],
  [3_599_600, '1 h 0 min'],
  [7_512_000, '2 h 5 min'],
  [86_399_999, '1 d 0 h'],
  [273_600_000, '3 d 4 h'],
])('%d milliseconds read %s', (milliseconds, text) => {
  expect(formatDuration(milliseconds)).toBe(text);
});

test.each([
  [0, '0 bytes'],
  [1, '1 byte'],
  [1023, '1,023 bytes'],
  [1024, '1 kB'],
  [8192, '8 kB'],
  [1536, '1.5 kB'],
  [1023.7 * 1024, '1 MB'],
  [412 * MB, '412 MB'],
  [1.5 * GB, '1.5 GB'],
  [18.4 * GB, '18 GB'],
  [3 * 1024 * GB, '3 TB'],
  [5000 * 1024 ** 5, '5,000 PB'],
  [-8192, '-8 kB'],
])('%d bytes read %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

test('a difference of sizes has a sign', () => {
  expect([8192, 0, -8192].map(formatBytesDelta)).toEqual(['+8 kB', 'no change', '-8 kB']);
});

test('rates have two digits that matter', () => {
  expect([12_345, 41.7, 3.125, 0.0141, 0.00001].map(formatRate)).toEqual([
    '12,345 calls/s',
    '42 calls/s',
    '3.1 calls/s',
    '0.014 calls/s',
    '<0.001 calls/s',
  ]);
});

test('counts have separators of thousands', () => {
  expect([0, 999, 1000, 212_004_118, -4500].map(formatCount)).toEqual([
    '0',
    '999',
    '1,000',
    '212,004,118',
    '-4,500',
  ]);
  expect([plural(1, 'index', 'indexes'), plural(2000, 'row')]).toEqual(['1 index', '2,000 rows']);
});

test('times are those of UTC, to the minute', () => {
  expect(formatTime('2026-11-28T16:04:59.123Z')).toBe('2026-11-28 16:04 UTC');
});
