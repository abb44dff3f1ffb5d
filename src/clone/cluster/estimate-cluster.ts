/**
 * Estimates the cost of a copy of the cluster, per strategy. The coefficients were measured on PostgreSQL 18 with local disks
 * (XFS and btrfs, 1,000 to 42,000 files); they serve to choose and to warn.
 */
export type ClusterStrategy = 'btrfs snapshot' | 'zfs snapshot' | 'reflink' | 'copy';

const SNAPSHOTS: readonly string[] = ['btrfs snapshot', 'zfs snapshot'] satisfies ClusterStrategy[];
const BY_FILES: readonly string[] = ['btrfs snapshot', 'reflink'] satisfies ClusterStrategy[];

/** Tells how a clone's files share blocks with the target's, and if files beside them can do so, too (`bySingleFiles`). */
export function sharingOf(strategy: string) {
  return { isSnapshot: SNAPSHOTS.includes(strategy), bySingleFiles: BY_FILES.includes(strategy) };
}

/** An immediate checkpoint, the end of the backup, the start of the second server and its recovery. */
const CHECKPOINT_MS = 250;
const STOP_MS = 50;
const START_MS = 250;
const SNAPSHOT_MS = 100;
const PER_FILE_MS = 0.05;
const COPY_BYTES_PER_MS = 300_000;

/**
 * Estimates the milliseconds until the clone can be used.
 * @param size files, bytes that are copied in full, and the upper limit for a spread checkpoint.
 */
export function estimateClusterMs(
  strategy: ClusterStrategy,
  checkpoint: 'fast' | 'spread',
  size: { readonly files: number; readonly bytes: number; readonly spreadMs: number },
): number {
  if (sharingOf(strategy).isSnapshot)
    return Math.round((checkpoint === 'fast' ? CHECKPOINT_MS : 0) + SNAPSHOT_MS + START_MS);
  const start = checkpoint === 'fast' ? CHECKPOINT_MS : CHECKPOINT_MS + size.spreadMs / 2;
  return Math.round(start + STOP_MS + START_MS + PER_FILE_MS * size.files + size.bytes / COPY_BYTES_PER_MS);
}
