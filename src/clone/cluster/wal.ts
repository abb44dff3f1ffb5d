import { mkdir, readdir } from 'node:fs/promises';
import path from 'node:path';
import { SafemigrateError } from '../../errors.ts';
import type { BackupEnd } from './backup.ts';
import type { Layout } from './cluster-layout.ts';
import type { Copier } from './copier.ts';
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
function positionOf(lsn: string): bigint {
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

/**
 * Copies the WAL that recovery needs, after the backup has ended. Segments on another file system are copied in full.
 * @throws SafemigrateError `CLONE` if some of it was recycled.
 */
export async function copyWal(
  { wal }: Pick<Layout, 'wal'>,
  { walSegmentBytes }: Pick<SourceServer, 'walSegmentBytes'>,
  end: BackupEnd,
  folder: string,
  copier: Copier,
): Promise<void> {
  const start = startSegment(end.label);
  if (start === undefined) throw new Error('a backup label names the segment that it starts in');
  const first = segmentNumber(start, walSegmentBytes);
  const last = segmentOfLsn(end.lsn, { walSegmentBytes });
  const to = path.join(folder, 'data', 'pg_wal');
  for (const name of neededWal(await readdir(wal), { first, last, walSegmentBytes }))
    await copier.file(path.join(wal, name), path.join(to, name));
  const copied = await readdir(to);
  const segments = new Set(
    copied.filter((name) => name.length === start.length).map((name) => segmentNumber(name, walSegmentBytes)),
  );
  if (!copied.includes(start) || BigInt(segments.size) !== last - first + 1n)
    throw new SafemigrateError(
      'CLONE',
      `The server has removed WAL that the copy needs (from ${start} on).`,
      {
        hint: 'Try again; a role that may make a replication slot (REPLICATION) can hold it, and so does a higher wal_keep_size.',
      },
    );
  const status = path.join(to, 'archive_status');
  await mkdir(status, { mode: 0o700 });
  copier.own(status);
}
