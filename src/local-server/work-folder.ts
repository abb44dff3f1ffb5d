import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { makeFolder, markFolder } from '../ownership/folder-mark.ts';
import { entryFile, type FolderEntry, ourStamp, writeEntry } from '../ownership/folder-records.ts';
import { stampOf } from '../ownership/process-stamp.ts';
import { newRunId } from '../ownership/run-id.ts';
import { type GuardedFolder, guardFolder } from './folder-cleaner.ts';

/**
 * A folder for what this process needs on this machine for a while, which may be a copy of the target's data: recorded,
 * guarded, made and marked, in this order. It goes when its guard is dismissed or we end in whatever way; where the guard
 * was killed as well, or the machine lost its power, with `safemigrate clean`.
 * @param parent takes it.
 * @param of what it belongs to, for people.
 * @throws SafemigrateError `CONFIGURATION` where it cannot be recorded, `CLONE` where it cannot be made.
 */
export async function makeWorkFolder(
  parent: string,
  holds: FolderEntry['holds'],
  of: string,
): Promise<GuardedFolder> {
  // Its own, not the run's, which may need several.
  const run = newRunId();
  const folder = path.join(await realpath(parent).catch(() => parent), `safemigrate_${run}`);
  const entry: FolderEntry = {
    version: 1,
    run,
    holds,
    folder,
    socketFolder: path.join(folder, 'socket'),
    target: of,
    endsAt: null,
    kept: false,
    owner: await ourStamp(),
    watchdog: null,
    release: null,
  };
  await writeEntry(entry);
  const guard = guardFolder(folder, entryFile(run));
  try {
    await writeEntry({ ...entry, watchdog: (await stampOf(guard.pid)) ?? null });
    await makeFolder(folder);
    await markFolder(folder, run);
    return { folder, guard };
  } catch (error) {
    await guard.dismiss().catch(() => {});
    throw error;
  }
}
