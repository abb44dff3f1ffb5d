import { describe, expect, test } from 'vitest';
import { neededWal, segmentNumber, segmentOfLsn, startSegment } from '../../../../src/clone/cluster/fill.ts';

const MB = 2 ** 20;
const LABEL = `START WAL LOCATION: 1/FE000028 (file 0000000100000001000000FE)
CHECKPOINT LOCATION: 1/FE000080
BACKUP METHOD: streamed
LABEL: START WAL LOCATION: 0/1 (file 000000010000000000000001)
`;

describe('the WAL of a backup', () => {
  test('begins with the segment that the label names first', () => {
    expect(startSegment(LABEL)).toBe('0000000100000001000000FE');
    expect(startSegment('LABEL: nothing')).toBeUndefined();
  });

  test.each([
    [16 * MB, '0/1000000', 0n],
    [16 * MB, '0/1000001', 1n],
    [16 * MB, '1/FF000028', 511n],
    [64 * MB, '1/0', 63n],
    [MB, '0/FFFFFFFF', 4095n],
  ])('of segments of %i bytes ends at %s in the segment %i', (walSegmentBytes, lsn, number) => {
    expect(segmentOfLsn(lsn, { walSegmentBytes })).toBe(number);
  });

  test('is counted across the places where the lower half of the names starts anew', () => {
    expect(segmentNumber('0000000100000001000000FF', 16 * MB)).toBe(511n);
    expect(segmentNumber('000000030000000200000000', 16 * MB)).toBe(512n);
    expect(segmentNumber('00000001000000010000003F', 64 * MB)).toBe(127n);
  });

  test('is what lies between start and end, on whatever timeline, and the histories', () => {
    const names = [
      '0000000100000001000000FD',
      '0000000100000001000000FE',
      '0000000100000001000000FE.00000028.backup',
      '0000000100000001000000FF',
      '000000020000000200000000',
      '000000020000000200000001',
      '000000020000000200000000.partial',
      '00000002.history',
      'archive_status',
      'xlogtemp.123',
    ];
    expect(neededWal(names, { first: 510n, last: 512n, walSegmentBytes: 16 * MB })).toEqual([
      '0000000100000001000000FE',
      '0000000100000001000000FF',
      '000000020000000200000000',
      '00000002.history',
    ]);
  });
});
