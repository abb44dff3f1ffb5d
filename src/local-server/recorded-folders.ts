import { rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { messageOf } from '../errors.ts';
import { type FolderEntry, readEntries } from '../ownership/folder-records.ts';
import { type Liveness, livenessOf } from '../ownership/process-stamp.ts';
import { uniqueBytesOf } from '../ownership/unique-bytes.ts';
import { endFolder } from './remove-folder.ts';

/** A folder that a run has made on this machine, as this user's state folder tells of it. */
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

export interface UnreadableEntry {
  readonly file: string;
  readonly unreadable: string;
}

export async function recordedFolders(): Promise<(RecordedFolder | UnreadableEntry)[]> {
  const entries = await readEntries();
  return Promise.all(entries.map((entry) => ('unreadable' in entry ? entry : judge(entry))));
}

/** Space that it takes beyond what it shares, in bytes; null if that cannot be determined. */
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

export interface FolderCleaning {
  readonly removed: string[];
  readonly left: { folder: string; reason: string }[];
  readonly failed: { folder: string; reason: string }[];
}

/**
 * Ends and removes those whose run and watchdog are dead, and drops entries of folders that are gone. The clone of a restored dump
 * lies in the dump's folder: it comes first, so that its server is ended before its files are gone.
 */
export async function cleanFolders(options: { kept: boolean }): Promise<FolderCleaning> {
  const result: FolderCleaning = { removed: [], left: [], failed: [] };
  for (const found of (await recordedFolders()).sort(innerFirst)) {
    if ('unreadable' in found) {
      if (await dropIfNeverWritten(found.file)) continue;
      result.left.push({ folder: found.file, reason: `it cannot be read: ${found.unreadable}` });
      continue;
    }
    const { folder } = found.entry;
    const reason = reasonToLeave(found, options);
    if (reason !== null) {
      result.left.push({ folder, reason });
      continue;
    }
    try {
      await endFolder(found.entry);
      if (found.present) result.removed.push(folder);
    } catch (error) {
      result.failed.push({ folder, reason: messageOf(error) });
    }
  }
  return result;
}

function innerFirst(one: RecordedFolder | UnreadableEntry, other: RecordedFolder | UnreadableEntry): number {
  const depth = (each: typeof one) => ('entry' in each ? each.entry.folder.split(path.sep).length : 0);
  return depth(other) - depth(one);
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

function reasonToLeave({ state, present }: RecordedFolder, options: { kept: boolean }): string | null {
  if (state === 'alive') return 'its run is still alive';
  if (!present) return null;
  if (state === 'unknown') return 'whether its run is alive cannot be seen from here';
  if (state === 'kept' && !options.kept)
    return 'it was kept on request; `safemigrate clean --kept` removes it';
  return null;
}
