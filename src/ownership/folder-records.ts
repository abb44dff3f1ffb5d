import { rm } from 'node:fs/promises';
import path from 'node:path';
import * as z from 'zod/mini';
import type { Target } from '../database/target.ts';
import { type ProcessStamp, stampOf } from './process-stamp.ts';
import { type RunId, runIdSchema } from './run-id.ts';
import { readStateFiles, stateFolder, type UnreadableFile, writeStateFile } from './state-files.ts';

/** The stamp of a process, as it is stored. */
export const processStampSchema = z.object({
  pid: z.int().check(z.positive()),
  started: z.string(),
  machine: z.string(),
  boot: z.string(),
  world: z.string(),
});

export const absolutePath = z.string().check(z.startsWith('/'));

const userSchema = z.object({ uid: z.int(), gid: z.int() });

/** How the server of a clone that can be reset is started: see CopiedOptions. */
const startOrder = z.object({
  /** Owner of its files. */
  owner: userSchema,
  user: z.optional(userSchema),
  programs: absolutePath,
  through: z.array(z.string()),
  settings: z.record(z.string(), z.string()),
  /** Shell commands, if the file system itself keeps the first state: one saves it, the other one goes back to it. */
  rollback: z.optional(z.object({ save: z.string(), restore: z.string() })),
});

export type StartOrder = Readonly<z.infer<typeof startOrder>>;

/**
 * Private servers and dumps have folders anywhere on the machine, so the user's state folder has a record of each, written before the
 * folder is created and removed after the folder.
 */
const folderEntry = z.object({
  version: z.literal(1),
  run: runIdSchema,
  holds: z.enum(['clone', 'dump', 'restored dump', 'server', 'log', 'script', 'configuration']),
  folder: absolutePath,
  /** In the folder, or apart from it if that path would be too long for a socket. */
  socketFolder: absolutePath,
  /** The target's host and database, or the restored file; for display. */
  target: z.string(),
  /** End of its life, ISO 8601; null: it ends with its run. */
  endsAt: z.nullable(z.string()),
  kept: z.boolean(),
  owner: processStampSchema,
  /** The reaper or the folder cleaner (local-server/); null until it is started. */
  watchdog: z.nullable(processStampSchema),
  /** A shell command that releases what removing the folder does not. */
  release: z.nullable(z.string()),
  /** For a clone that can be reset to its first state. */
  start: z.optional(startOrder),
});

export type FolderEntry = Readonly<z.infer<typeof folderEntry>>;

/** No TCP port is open: it is part of the socket's name. */
export const CLONE_PORT = 5432;

/** Returns `$XDG_STATE_HOME/safemigrate/clones`, or its place under the home folder. */
export function registryFolder(environment: NodeJS.ProcessEnv = process.env): string {
  return path.join(stateFolder(environment), 'clones');
}

export function entryFile(run: RunId): string {
  return path.join(registryFolder(), `${run}.json`);
}

/** Writes a record. @param flush whether it must survive a loss of power. @throws SafemigrateError `CONFIGURATION` */
export async function writeEntry(written: FolderEntry, flush = true): Promise<void> {
  await writeStateFile(entryFile(written.run), written, flush);
}

export async function removeEntry(run: RunId): Promise<void> {
  await rm(entryFile(run), { force: true });
}

/** Lists the records of this user, the oldest first; those that cannot be read with the reason. */
export async function readEntries(): Promise<(FolderEntry | UnreadableFile)[]> {
  return readStateFiles(registryFolder(), folderEntry);
}

/** Names the folder's content for display. */
export function nameTarget({ settings, database }: Pick<Target, 'settings' | 'database'>): string {
  const [address] = settings.hosts;
  return `${address?.host}:${address?.port}/${database.name}`;
}

/** Describes this process as the owner of what it creates. */
export async function ourStamp(): Promise<ProcessStamp> {
  const stamp = await stampOf(process.pid);
  if (stamp === undefined) throw new Error('a process that runs is found by its number');
  return stamp;
}
