import { lstatSync } from 'node:fs';
import { access, constants, readdir, realpath, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { codeOf } from '../../errors.ts';
import { formatBytes } from '../../format.ts';
import { CopyObstacle } from '../obstacle.ts';
import { floorOf } from '../private/private-server.ts';
import { inside } from './cluster-layout.ts';

/** The place for the folder of a copy. */
export type CloneFolder = Awaited<ReturnType<typeof findPlace>>;

/**
 * Chooses the place for a copy.
 * @param wished the folder of --clone-dir.
 * @returns as `parent` the folder in which the copy's own folder is created, without symbolic links.
 * @throws CopyObstacle with the reason if there is none.
 */
export async function findPlace(data: string, wished: string | null) {
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

export async function spaceIn(folder: string) {
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

/** Finds the folder beside the data directory. @throws CopyObstacle if the data directory is a mount point: no folder beside it shares its file system. */
export async function refuseMountPoint(data: string, { parent }: CloneFolder, isZfs: boolean): Promise<void> {
  const [of, above] = await Promise.all([stat(data), stat(parent)]);
  if (of.dev === above.dev) return;
  throw new CopyObstacle(
    `the data directory ${data} is a mount point, and ${parent} is on another file system`,
    `${isZfs ? 'run safemigrate as root, which takes snapshots, or ' : ''}name a folder on the same file system with --clone-dir ` +
      '(if it has none, mount the file system a second time elsewhere)',
  );
}

/** @param what for the message. @throws CopyObstacle */
export function refuseWithoutSpace(place: CloneFolder, bytes: number, what = 'a copy'): void {
  const floor = floorOf(place.totalBytes);
  if (place.freeBytes - bytes >= floor) return;
  const need = bytes > 0 ? `${what} takes ${formatBytes(bytes)}, and ` : '';
  throw new CopyObstacle(
    `${need}${formatBytes(place.freeBytes)} are free in ${place.parent}; ${formatBytes(floor)} must remain free`,
    'free some space there, or name a folder on another disk with --clone-dir',
  );
}

/** Sizes decide whether a copy fits, so they may take their time: only the disk is read. The number of files is for an estimate. */
const BUDGET_MS = { sizes: 3_000, files: 120 } as const;
/** Number of files after which it yields to the event loop, since one folder may hold all files of a server. */
const AT_ONCE = 1_000;

/**
 * Counts files, and adds up their sizes if requested, until the budget is used up.
 * @param isSkipped decides about a folder by its full path.
 * @returns as `atMostBytes` the most that `bytes` may be in truth: larger if the count took too long; both figures are then those of
 * the files seen so far.
 */
export async function measureFolder(
  folder: string,
  withSizes: boolean,
  isSkipped: (folder: string) => boolean = () => false,
  budgetMs: number = BUDGET_MS[withSizes ? 'sizes' : 'files'],
) {
  const deadline = performance.now() + budgetMs;
  const waiting = [folder];
  const sum = { files: 0, bytes: 0 };
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    if (performance.now() > deadline)
      return {
        ...sum,
        allCounted: false,
        atMostBytes: withSizes ? Math.max(sum.bytes, await usedBytes(folder)) : 0,
      };
    const entries = await readdir(at, { withFileTypes: true }).catch(() => []);
    for (const [index, entry] of entries.entries()) {
      if (index % AT_ONCE === 0) await setImmediate();
      const place = path.join(at, entry.name);
      if (entry.isDirectory()) {
        if (!isSkipped(place)) waiting.push(place);
      } else if (entry.isFile()) {
        sum.files += 1;
        // Synchronous: through the thread pool this takes ten times as long.
        if (withSizes) sum.bytes += sizeOf(place);
      }
    }
  }
  return { ...sum, allCounted: true, atMostBytes: sum.bytes };
}

/** Returns 0 for a file that no longer exists, or cannot be read. */
function sizeOf(place: string): number {
  try {
    return lstatSync(place, { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    return 0;
  }
}

async function usedBytes(folder: string): Promise<number> {
  const { blocks, bfree, bsize } = await statfs(folder);
  return (blocks - bfree) * bsize;
}
