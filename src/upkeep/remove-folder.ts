import { lstat, readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { SafemigrateError } from '../errors.ts';
import { startWatchdog } from '../server/watchdog.ts';
import { entryFile, type FolderEntry, removeEntry } from './folders.ts';
import { parseMark } from './mark.ts';

/**
 * Stops the server in a clone's folder and removes the folder, if both are what the entry says; the caller knows that
 * nobody needs them. An entry without a folder is dropped.
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
  const watchdog = await startWatchdog({
    ...{ folder, run, entry: entryFile(run), ttlMs: 0, floorBytes: 0 },
    ...{ socketFolder, release },
  });
  if (!(await watchdog.end())) {
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
  const found = await lstat(folder).catch(() => undefined);
  if (!found) return null;
  if (!found.isDirectory()) return 'it is no folder';
  const text = await readFile(path.join(folder, 'mark.json'), 'utf8').catch(() => null);
  if (text === null) return (await isBarelyMade(folder)) ? null : 'it has no mark';
  const mark = parseMark(markIn(text));
  if (typeof mark === 'string') return 'its mark cannot be read';
  if (mark.run !== run) return `its mark is that of run ${mark.run}`;
  if (!('path' in mark.at) || mark.at.path !== folder) return 'its mark belongs to another place';
  if (mark.at.folder !== String(found.ino)) return 'its mark belongs to another folder';
  return null;
}

/** Its making was cut off before its mark was in place. */
async function isBarelyMade(folder: string): Promise<boolean> {
  return (await readdir(folder)).every((name) => name === 'mark.json.new');
}

function markIn(text: string): string | null {
  try {
    const { mark } = JSON.parse(text) as { mark?: unknown };
    return typeof mark === 'string' ? mark : null;
  } catch {
    return null;
  }
}
