import { mkdir, readdir } from 'node:fs/promises';
import path from 'node:path';
import { SafemigrateError } from '../../errors.ts';
import type { BackupEnd } from './backup.ts';
import type { Layout } from './cluster-layout.ts';
import type { Copier } from './copier.ts';
import type { SourceServer } from './source-server.ts';
import { neededWal, segmentNumber, segmentOfLsn, startSegment } from './wal.ts';

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
