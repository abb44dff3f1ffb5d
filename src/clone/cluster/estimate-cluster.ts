/**
 * Estimates the cost of a copy of the cluster, per strategy. The coefficients were measured on PostgreSQL 18 with local disks
 * (XFS and btrfs, 1,000 to 42,000 files); they serve to choose and to warn.
 */
export type ClusterStrategy = 'btrfs snapshot' | 'zfs snapshot' | 'reflink' | 'copy';

/** The way in which a clone's files share blocks with the target's. */
export interface Sharing {
  readonly isSnapshot: boolean;
  /** Files beside them can share blocks with them, too. */
  readonly bySingleFiles: boolean;
}

const NONE: Sharing = { isSnapshot: false, bySingleFiles: false };

const SHARING: ReadonlyMap<string, Sharing> = new Map<ClusterStrategy, Sharing>([
  ['btrfs snapshot', { isSnapshot: true, bySingleFiles: true }],
  ['zfs snapshot', { isSnapshot: true, bySingleFiles: false }],
  ['reflink', { isSnapshot: false, bySingleFiles: true }],
]);

export function sharingOf(strategy: string): Sharing {
  return SHARING.get(strategy) ?? NONE;
}

/** An immediate checkpoint, the end of the backup, the start of the second server and its recovery. */
const CHECKPOINT_MS = 250;
const STOP_MS = 50;
const START_MS = 250;
const SNAPSHOT_MS = 100;
const PER_FILE_MS = 0.05;
const COPY_BYTES_PER_MS = 300_000;

export interface Size {
  readonly files: number;
  /** Bytes that are copied in full. */
  readonly bytes: number;
  /** Upper limit for a spread checkpoint. */
  readonly spreadMs: number;
}

/** Estimates the milliseconds until the clone can be used. */
export function estimateClusterMs(
  strategy: ClusterStrategy,
  checkpoint: 'fast' | 'spread',
  size: Size,
): number {
  if (sharingOf(strategy).isSnapshot)
    return Math.round((checkpoint === 'fast' ? CHECKPOINT_MS : 0) + SNAPSHOT_MS + START_MS);
  const start = checkpoint === 'fast' ? CHECKPOINT_MS : CHECKPOINT_MS + size.spreadMs / 2;
  return Math.round(start + STOP_MS + START_MS + PER_FILE_MS * size.files + size.bytes / COPY_BYTES_PER_MS);
}
