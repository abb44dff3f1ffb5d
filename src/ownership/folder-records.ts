import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { Target } from '../database/target.ts';
import { object, oneOf, orNull, positiveInteger, text, textThat, truth } from '../shape.ts';
import { type ProcessStamp, stampOf } from './process-stamp.ts';
import { parseRunId, type RunId } from './run-id.ts';
import { readStateFiles, stateFolder, type UnreadableFile, writeStateFile } from './state-files.ts';

/**
 * Clones that are servers of their own, and dumps, live in folders anywhere on the machine, so the user's state folder
 * holds an entry for each, written before the folder is made and removed after it is gone.
 */
export interface FolderEntry {
  readonly version: 1;
  readonly run: RunId;
  readonly holds: (typeof HOLDS)[number];
  readonly folder: string;
  /** In the folder, or apart from it where that path would be too long for a socket. */
  readonly socketFolder: string;
  /** The target's host and database, or the file that was restored; for people. */
  readonly target: string;
  /** ISO 8601; null: with its run. */
  readonly endsAt: string | null;
  readonly kept: boolean;
  readonly owner: ProcessStamp;
  /** Or the guard (local-server/folder-cleaner.ts); null until it is started. */
  readonly watchdog: ProcessStamp | null;
  /** A shell command that gives back what removing the folder does not. */
  readonly release: string | null;
}

const HOLDS = ['clone', 'dump', 'restored dump', 'server', 'log'] as const;

/** Of a process, as it is stored. */
export const stamp = object({ pid: positiveInteger, started: text, machine: text, boot: text, world: text });
export const absolutePath = textThat((each) => (each.startsWith('/') ? each : undefined), 'an absolute path');

const entry = object({
  version: oneOf(1),
  run: textThat(parseRunId, 'a run id'),
  holds: oneOf(...HOLDS),
  folder: absolutePath,
  socketFolder: absolutePath,
  target: text,
  endsAt: orNull(text),
  kept: truth,
  owner: stamp,
  watchdog: orNull(stamp),
  release: orNull(text),
});

/** Nobody listens on it: it is part of the socket's name. */
export const CLONE_PORT = 5432;

/** `$XDG_STATE_HOME/safemigrate/clones`, or its place under the home folder. */
export function registryFolder(environment: NodeJS.ProcessEnv = process.env): string {
  return path.join(stateFolder(environment), 'clones');
}

export function entryFile(run: RunId): string {
  return path.join(registryFolder(), `${run}.json`);
}

/** @throws SafemigrateError `CONFIGURATION` */
export async function writeEntry(written: FolderEntry): Promise<void> {
  await writeStateFile(entryFile(written.run), written);
}

export async function removeEntry(run: RunId): Promise<void> {
  await rm(entryFile(run), { force: true });
}

/** @returns every entry of this user, the oldest first; those that cannot be read with the reason. */
export async function readEntries(): Promise<(FolderEntry | UnreadableFile)[]> {
  return readStateFiles(registryFolder(), entry);
}

/** For people. */
export function nameTarget({ settings, database }: Pick<Target, 'settings' | 'database'>): string {
  const [address] = settings.hosts;
  return `${address?.host}:${address?.port}/${database.name}`;
}

/** This process, as the owner of what it makes. */
export async function ourStamp(): Promise<ProcessStamp> {
  const stamp = await stampOf(process.pid);
  if (stamp === undefined) throw new Error('a process that runs is found by its number');
  return stamp;
}
