import path from 'node:path';
import { SafemigrateError } from '../errors.ts';
import { doubtOfFolder } from '../ownership/folder-mark.ts';
import { entryFile, type FolderEntry, removeEntry } from '../ownership/folder-records.ts';
import { startCloneReaper } from './clone-reaper.ts';

/**
 * Stops the server in a recorded folder and removes the folder, if both are what the entry says; the caller knows that
 * they are no longer needed. An entry without a folder is dropped.
 * @throws SafemigrateError `NOT_OURS` where the folder is not provably the run's; `CLONE` when it is still there.
 */
export async function endFolder(entry: FolderEntry): Promise<void> {
  const { run, folder, socketFolder, release } = entry;
  const doubt = await doubtOf(entry);
  if (doubt) {
    throw new SafemigrateError('NOT_OURS', `${folder} was not removed: ${doubt}.`, {
      hint: `Look at it yourself; then remove it and ${entryFile(run)}.`,
    });
  }
  // The one that ends what runs and removes what is there is the watchdog; this one's time is up from the start.
  const watchdog = await startCloneReaper({
    folder,
    run,
    entry: entryFile(run),
    ttlMs: 0,
    floorBytes: 0,
    socketFolder,
    release,
  });
  if ((await watchdog.end('gone')) !== 'gone') {
    throw new SafemigrateError('CLONE', `${folder} could not be removed.`, {
      hint: `Remove it yourself: rm -rf ${folder}; then \`safemigrate clean\`.`,
    });
  }
  await removeEntry(run);
}

async function doubtOf({ run, folder, socketFolder }: FolderEntry): Promise<string | null> {
  const name = `safemigrate_${run}`;
  if (path.basename(folder) !== name) return `its name is not ${name}`;
  if (socketFolder !== path.join(folder, 'socket') && path.basename(socketFolder) !== name)
    return `${socketFolder} is not named ${name}`;
  return doubtOfFolder(folder, run);
}
