import { access, constants, realpath, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { codeOf } from '../../errors.ts';
import { formatBytes } from '../../format.ts';
import { floorOf } from '../private/folder-location.ts';
import { inside } from './cluster-layout.ts';
import { CopyObstacle } from './obstacle.ts';

/** The place for the folder of a copy. */
export interface CloneFolder {
  /** The folder in which the copy's own folder is created; without symbolic links. */
  readonly parent: string;
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/**
 * Chooses the place for a copy.
 * @param wished the folder of --clone-dir.
 * @throws Obstacle with the reason if there is none.
 */
export async function findPlace(data: string, wished: string | null): Promise<CloneFolder> {
  const parent = wished === null ? path.dirname(data) : await resolve(wished);
  if (parent === data || inside(data, parent) !== undefined)
    throw new CopyObstacle(`${parent} is inside the data directory`, 'name another folder with --clone-dir');
  try {
    await access(parent, constants.W_OK | constants.X_OK);
  } catch {
    throw new CopyObstacle(
      `this user cannot create a folder in ${parent}`,
      'name a folder on the same file system, where this user may write, with --clone-dir',
    );
  }
  return { parent, ...(await spaceIn(parent)) };
}

export async function spaceIn(folder: string): Promise<Pick<CloneFolder, 'freeBytes' | 'totalBytes'>> {
  const { bavail, blocks, bsize } = await statfs(folder);
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
}

async function resolve(wished: string): Promise<string> {
  try {
    return await realpath(wished);
  } catch (error) {
    throw new CopyObstacle(`--clone-dir ${wished} cannot be used (${codeOf(error)})`, `mkdir -p ${wished}`);
  }
}

/** Finds the folder beside the data directory. @throws Obstacle if the data directory is a mount point: no folder beside it shares its file system. */
export async function refuseMountPoint(data: string, { parent }: CloneFolder, isZfs: boolean): Promise<void> {
  const [of, above] = await Promise.all([stat(data), stat(parent)]);
  if (of.dev === above.dev) return;
  throw new CopyObstacle(
    `the data directory ${data} is a mount point, and ${parent} is on another file system`,
    `${isZfs ? 'run safemigrate as root, which takes snapshots, or ' : ''}name a folder on the same file system with --clone-dir ` +
      '(if it has none, mount the file system a second time elsewhere)',
  );
}

/** @throws Obstacle */
export function refuseWithoutSpace(place: CloneFolder, bytes: number): void {
  const floor = floorOf(place.totalBytes);
  if (place.freeBytes - bytes >= floor) return;
  const need = bytes > 0 ? `a copy takes ${formatBytes(bytes)}, and ` : '';
  throw new CopyObstacle(
    `${need}${formatBytes(place.freeBytes)} are free in ${place.parent}, of which ${formatBytes(floor)} must remain`,
    'free some space there, or name a folder on another disk with --clone-dir',
  );
}
