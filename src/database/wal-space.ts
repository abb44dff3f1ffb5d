import { statfs } from 'node:fs/promises';
import { formatBytes } from '../format.ts';
import type { Session } from '../postgres/connection/session.ts';
import { findWalFolder, orUndefined } from './data-folders.ts';
import type { Target } from './target.ts';

/** The disk of the server's WAL, in bytes. */
export interface WalSpace {
  readonly freeBytes: number;
  /** The least that has to stay free. */
  readonly floorBytes: number;
}

const LEAST_BYTES = 2 * 2 ** 30;
const LEAST_SHARE = 0.05;
/** Limit of the share, since the least would be too much for a small disk. */
const MOST_SHARE = 0.1;

/** Reads the space that is left for WAL again and again; null if this machine or this role cannot see its disk. */
export type WalSpaceReader = () => Promise<WalSpace | null>;

/**
 * Returns a reader of the space on the disk of the server's WAL.
 * @param leastBytes what the user wants to stay free; null: a share of the disk. */
export async function watchWalSpace(
  session: Session,
  target: Pick<Target, 'settings'>,
  leastBytes: number | null,
): Promise<WalSpaceReader> {
  const folder = await findWalFolder(session, target);
  return async () => {
    const space = folder === null ? undefined : await orUndefined(() => statfs(folder));
    if (!space) return null;
    const { bavail, blocks, bsize } = space;
    const share = Math.min(Math.max(LEAST_BYTES, LEAST_SHARE * blocks * bsize), MOST_SHARE * blocks * bsize);
    return { freeBytes: bavail * bsize, floorBytes: leastBytes ?? Math.round(share) };
  };
}

export async function readWalSpace(...order: Parameters<typeof watchWalSpace>): Promise<WalSpace | null> {
  return (await watchWalSpace(...order))();
}

/** Says that too little space is left, for the middle of a sentence; undefined if there is enough, or it cannot be seen. */
export function shortOfSpace(space: WalSpace | null): string | undefined {
  if (!space || space.freeBytes >= space.floorBytes) return undefined;
  return `the disk of pg_wal has ${formatBytes(space.freeBytes)} left, and ${formatBytes(space.floorBytes)} have to stay free (--limit free-disk)`;
}
