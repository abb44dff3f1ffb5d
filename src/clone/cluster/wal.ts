import type { SourceServer } from './source-server.ts';

/** Finds where a backup began, from its label: `START WAL LOCATION: 0/9000028 (file 000000010000000000000009)`. */
export function startSegment(label: string): string | undefined {
  return /^START WAL LOCATION: [0-9A-F]+\/[0-9A-F]+ \(file ([0-9A-F]{24})\)$/m.exec(label)?.[1];
}

/** The number of a segment is in its name, in two halves: the lower one counts the segments of 4 GB. */
export function segmentNumber(name: string, walSegmentBytes: number): bigint {
  const perId = 0x1_0000_0000n / BigInt(walSegmentBytes);
  return BigInt(`0x${name.slice(8, 16)}`) * perId + BigInt(`0x${name.slice(16, 24)}`);
}

/** @param lsn such as `0/9000028`. @returns its position in bytes. */
export function positionOf(lsn: string): bigint {
  const [high = '0', low = '0'] = lsn.split('/');
  return BigInt(`0x${high}`) * 0x1_0000_0000n + BigInt(`0x${low}`);
}

/** Numbers the segment with the last byte before the position. @param lsn such as `0/9000028`. */
export function segmentOfLsn(
  lsn: string,
  { walSegmentBytes }: Pick<SourceServer, 'walSegmentBytes'>,
): bigint {
  return (positionOf(lsn) - 1n) / BigInt(walSegmentBytes);
}

/**
 * Selects the files of pg_wal that recovery from a backup needs: its segments, on any timeline (a standby's backup may cross from
 * one to the next), and the histories of timelines.
 */
export function neededWal(
  names: readonly string[],
  range: { readonly first: bigint; readonly last: bigint; readonly walSegmentBytes: number },
): string[] {
  return names.filter((name) => {
    if (/^[0-9A-F]{8}\.history$/.test(name)) return true;
    if (!/^[0-9A-F]{24}$/.test(name)) return false;
    const number = segmentNumber(name, range.walSegmentBytes);
    return number >= range.first && number <= range.last;
  });
}
