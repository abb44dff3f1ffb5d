import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { messageOf, SafemigrateError } from '../errors.ts';
import { type ProcessStamp, stampOf } from '../server/process-stamp.ts';
import { object, oneOf, orNull, positiveInteger, text, textThat, truth } from '../shape.ts';
import { parseRunId, type RunId } from './run-id.ts';

/**
 * Clones that are servers of their own live in folders anywhere on the machine, so the user's state folder holds an
 * entry for each, written before the folder is made and removed after it is gone.
 */
export interface FolderEntry {
  readonly version: 1;
  readonly run: RunId;
  readonly folder: string;
  /** In the folder, or apart from it where that path would be too long for a socket. */
  readonly socketFolder: string;
  /** The target's host and database, for people. */
  readonly target: string;
  /** ISO 8601. */
  readonly endsAt: string;
  readonly kept: boolean;
  readonly owner: ProcessStamp;
  /** null until it is started. */
  readonly watchdog: ProcessStamp | null;
  /** A shell command that gives back what removing the folder does not. */
  readonly release: string | null;
}

const stamp = object({ pid: positiveInteger, started: text, machine: text, boot: text, world: text });
const absolutePath = textThat((each) => (each.startsWith('/') ? each : undefined), 'an absolute path');

const entry = object({
  version: oneOf(1),
  run: textThat(parseRunId, 'a run id'),
  folder: absolutePath,
  socketFolder: absolutePath,
  target: text,
  endsAt: text,
  kept: truth,
  owner: stamp,
  watchdog: orNull(stamp),
  release: orNull(text),
});

/** Nobody listens on it: it is part of the socket's name. */
export const CLONE_PORT = 5432;

/** `$XDG_STATE_HOME/safemigrate/clones`, or its place under the home folder. */
export function registryFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const state = environment.XDG_STATE_HOME;
  const base = state?.startsWith('/') ? state : path.join(environment.HOME || homedir(), '.local', 'state');
  return path.join(base, 'safemigrate', 'clones');
}

export function entryFile(run: RunId): string {
  return path.join(registryFolder(), `${run}.json`);
}

/** Written beside and renamed, so that nobody reads a half of it. @throws SafemigrateError `CONFIGURATION` */
export async function writeEntry(written: FolderEntry): Promise<void> {
  const file = entryFile(written.run);
  try {
    await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
    await writeNew(`${file}.new`, JSON.stringify(written));
    await rename(`${file}.new`, file);
  } catch (error) {
    throw new SafemigrateError('CONFIGURATION', `${file} cannot be written: ${messageOf(error)}`, {
      cause: error,
      hint: 'It is where clones are recorded before they are made. Set XDG_STATE_HOME to a folder of yours.',
    });
  }
}

async function writeNew(file: string, content: string): Promise<void> {
  await rm(file, { force: true });
  const handle = await open(file, 'wx', 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export async function removeEntry(run: RunId): Promise<void> {
  await rm(entryFile(run), { force: true });
}

/** @returns every entry of this user, the oldest first; those that cannot be read with the reason. */
export async function readEntries(): Promise<(FolderEntry | { file: string; unreadable: string })[]> {
  const folder = registryFolder();
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  const files = names.filter((name) => name.endsWith('.json')).sort();
  return Promise.all(
    files.map(async (name) => {
      const file = path.join(folder, name);
      try {
        return entry(JSON.parse(await readFile(file, 'utf8')));
      } catch (error) {
        return { file, unreadable: messageOf(error) };
      }
    }),
  );
}

/** This process, as the owner of what it makes. */
export async function ourStamp(): Promise<ProcessStamp> {
  const stamp = await stampOf(process.pid);
  if (stamp === undefined) throw new Error('a process that runs is found by its number');
  return stamp;
}
