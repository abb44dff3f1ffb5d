import { lstatSync } from 'node:fs';
import { readdir, statfs } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';

export interface MeasuredFiles {
  readonly files: number;
  /** Total size of the files, if requested. */
  readonly bytes: number;
  /** The most that `bytes` may be in truth: larger if the count took too long, and both figures are then what was seen so far. */
  readonly atMostBytes: number;
}

/** Sizes decide whether a copy fits, so they may take their time: only the disk is read. The number of files is for an estimate. */
const BUDGET_MS = { sizes: 3_000, files: 120 } as const;
/** Number of files after which it yields to the event loop, since one folder may hold all files of a server. */
const AT_ONCE = 1_000;

/**
 * Counts files, and adds up their sizes if requested, until the budget is used up.
 * @param isSkipped decides about a folder by its full path.
 */
export async function measureFolder(
  folder: string,
  withSizes: boolean,
  isSkipped: (folder: string) => boolean = () => false,
  budgetMs: number = BUDGET_MS[withSizes ? 'sizes' : 'files'],
): Promise<MeasuredFiles> {
  const deadline = performance.now() + budgetMs;
  const waiting = [folder];
  const sum = { files: 0, bytes: 0 };
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    if (performance.now() > deadline)
      return { ...sum, atMostBytes: withSizes ? Math.max(sum.bytes, await usedBytes(folder)) : 0 };
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
  return { ...sum, atMostBytes: sum.bytes };
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
