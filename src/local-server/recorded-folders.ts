import { rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { type Cleaning, cleanEach } from '../ownership/clean.ts';
import { type FolderEntry, readEntries } from '../ownership/folder-records.ts';
import { type Liveness, livenessOf } from '../ownership/process-stamp.ts';
import type { UnreadableFile } from '../ownership/state-files.ts';
import { uniqueBytesOf } from '../ownership/unique-bytes.ts';
import { endFolder } from './clone-reaper.ts';

/** A folder that a run has made on this machine, as this user's state folder records it. */
export interface RecordedFolder {
  readonly entry: FolderEntry;
  /**
   * `alive`: its run is, or its watchdog or guard is at removing it. `kept`: on request, with or without a watchdog.
   * `unknown`: made where this process cannot look (another container, another machine).
   */
  readonly state: 'alive' | 'kept' | 'dead' | 'unknown';
  /** The folder is there. */
  readonly present: boolean;
}

export async function recordedFolders(): Promise<(RecordedFolder | UnreadableFile)[]> {
  return Promise.all(
    (await readEntries()).map((entry): Promise<RecordedFolder> | UnreadableFile =>
      'holds' in entry ? judge(entry) : entry,
    ),
  );
}

/** Space that it takes beyond the shared blocks, in bytes; null if that cannot be determined. */
export async function folderBytes({ entry, present }: RecordedFolder): Promise<number | null> {
  const bytes = present ? await uniqueBytesOf(entry.folder) : 0;
  return typeof bytes === 'number' ? bytes : null;
}

async function judge(entry: FolderEntry): Promise<RecordedFolder> {
  const owner = await livenessOf(entry.owner);
  const watchdog = entry.watchdog ? await livenessOf(entry.watchdog) : 'dead';
  const present = await stat(entry.folder).then(
    () => true,
    () => false,
  );
  return { entry, present, state: stateOf(entry, owner, watchdog) };
}

function stateOf({ kept }: FolderEntry, owner: Liveness, watchdog: Liveness): RecordedFolder['state'] {
  if (owner === 'alive') return 'alive';
  if (owner === 'unknown' || watchdog === 'unknown') return 'unknown';
  if (kept) return 'kept';
  return watchdog;
}

/**
 * Ends and removes those whose run and watchdog are dead, and drops entries of folders that are gone. The clone of a restored dump
 * lies in the dump's folder: it comes first, so that its server is ended before its files are gone.
 */
export async function cleanFolders({ kept }: { kept: boolean }): Promise<Cleaning> {
  const found: (RecordedFolder | UnreadableFile)[] = [];
  for (const each of await recordedFolders())
    if ('entry' in each || !(await dropIfNeverWritten(each.file))) found.push(each);
  const depthOf = (each: RecordedFolder | UnreadableFile) => nameOf(each).split(path.sep).length;
  return cleanEach(
    found.sort((one, other) => depthOf(other) - depthOf(one)),
    nameOf,
    (each) => reasonToLeave(each, kept),
    async (each) => {
      if (!('entry' in each)) return false;
      await endFolder(each.entry);
      return each.present;
    },
  );
}

function nameOf(found: RecordedFolder | UnreadableFile): string {
  return 'entry' in found ? found.entry.folder : found.file;
}

/** An entry comes before the folder: one whose writing was cut off in the middle stands for nothing. */
async function dropIfNeverWritten(file: string): Promise<boolean> {
  const found = await stat(file);
  const { size, mtimeMs } = found;
  if (!found.isFile() || found.uid !== (process.geteuid?.() ?? found.uid)) return false;
  if (size > 0 || Date.now() - mtimeMs < BEING_WRITTEN_MS) return false;
  await rm(file);
  return true;
}

const BEING_WRITTEN_MS = 60_000;

function reasonToLeave(found: RecordedFolder | UnreadableFile, clearsKept: boolean): string | null {
  if ('unreadable' in found) return `it cannot be read: ${found.unreadable}`;
  const { state, present } = found;
  if (state === 'alive') return 'its run is still alive';
  if (!present) return null;
  if (state === 'unknown') return 'whether its run is alive cannot be seen from here';
  if (state === 'kept' && !clearsKept) return 'it was kept on request; `safemigrate clean --kept` removes it';
  return null;
}
