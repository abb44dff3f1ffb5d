import { chown, lstat, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import * as z from 'zod/mini';
import type { Target } from '../database/target.ts';
import { codeOf, messageOf, SafemigrateError } from '../errors.ts';
import { processStampSchema } from './process-stamp.ts';
import { parseRunId, type RunId, runIdSchema } from './run-id.ts';
import { readStateFiles, stateFolder, type UnreadableFile, writeStateFile } from './state-files.ts';

export const absolutePath = z.string().check(z.startsWith('/'));

const userSchema = z.object({ uid: z.int(), gid: z.int() });

/** A user of the operating system. */
export type Owner = Readonly<z.infer<typeof userSchema>>;

/** The start of the server of a clone that can be reset: see CopiedOptions. */
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
  holds: z.enum(['clone', 'dump', 'restored dump', 'server', 'log', 'script', 'configuration', 'sockets']),
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

/** Writes a record. @throws SafemigrateError `CONFIGURATION` */
export async function writeEntry(written: FolderEntry): Promise<void> {
  await writeStateFile(entryFile(written.run), written);
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

/** The content of the file by which a folder that safemigrate made on this machine is recognised before it is removed. */
const folderMark = z.object({
  version: z.literal(1),
  run: runIdSchema,
  /** A copy of the folder has the same mark, but another path or inode. */
  at: z.object({ path: z.string(), inode: z.string() }),
});

export type FolderMark = Readonly<z.infer<typeof folderMark>>;

const NAME = 'mark.json';
const UNFINISHED = `${NAME}.new`;

/**
 * Creates a folder that only its owner may enter.
 * @param owner user of the operating system, if we are root. Default: our own.
 * @throws SafemigrateError `CLONE`, `DISK`
 */
export async function makeFolder(folder: string, owner?: Owner): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o700 });
    if (owner && process.getuid?.() === 0) await chown(folder, owner.uid, owner.gid);
  } catch (error) {
    throw unmade(folder, error);
  }
}

function unmade(folder: string, cause: unknown): SafemigrateError {
  const code = codeOf(cause) === 'ENOSPC' ? 'DISK' : 'CLONE';
  return new SafemigrateError(code, `The folder ${folder} could not be created: ${messageOf(cause)}.`, {
    cause,
    hint: 'Set TMPDIR to a folder of yours, or name one for clones with --clone-dir. The target was not touched by it.',
  });
}

/**
 * Marks a new folder, which may belong to another user already: an existing file or link is never written through.
 * @param owner of the mark, if we are root.
 * @throws SafemigrateError `CLONE`, `DISK`
 */
export async function markFolder(folder: string, run: RunId, owner?: Owner): Promise<void> {
  const { ino } = await lstat(folder);
  const mark: FolderMark = { version: 1, run, at: { path: folder, inode: String(ino) } };
  const fresh = path.join(folder, UNFINISHED);
  await rm(fresh, { recursive: true, force: true });
  try {
    const handle = await open(fresh, 'wx', 0o600);
    try {
      await handle.writeFile(JSON.stringify(mark));
      if (owner && process.getuid?.() === 0) await handle.chown(owner.uid, owner.gid);
    } finally {
      await handle.close();
    }
    await rename(fresh, path.join(folder, NAME));
  } catch (error) {
    throw unmade(folder, error);
  }
}

/** Says why the folder cannot be the one that was marked for this run; null if it is, or does not exist. */
export async function doubtOfFolder(folder: string, run: RunId): Promise<string | null> {
  const found = await lstat(folder).catch(() => undefined);
  if (!found) return null;
  if (!found.isDirectory()) return 'it is no folder';
  const written = await readFile(path.join(folder, NAME), 'utf8').catch(() => null);
  if (written === null) return (await isBarelyMade(folder)) ? null : 'it has no mark';
  const mark = parse(written);
  if (!mark) return 'its mark cannot be read';
  if (mark.run !== run) return `its mark is that of run ${mark.run}`;
  if (mark.at.path !== folder) return 'its mark belongs to another place';
  if (mark.at.inode !== String(found.ino)) return 'its mark belongs to another folder';
  return null;
}

const MARKED = /^safemigrate_(.*)$/;

/** Says whether a folder on this machine was made by a run of this tool, and marked: it is no one else's. */
export async function isMarkedFolder(folder: string): Promise<boolean> {
  const run = parseRunId(MARKED.exec(path.basename(folder))?.[1] ?? '');
  if (run === undefined || !(await lstat(path.join(folder, NAME)).catch(() => undefined))) return false;
  return (await doubtOfFolder(folder, run)) === null;
}

/** Says whether the creation of the folder was cut off before it was marked. */
async function isBarelyMade(folder: string): Promise<boolean> {
  return (await readdir(folder)).every((name) => name === UNFINISHED);
}

function parse(written: string): FolderMark | undefined {
  try {
    return folderMark.parse(JSON.parse(written));
  } catch {
    return undefined;
  }
}
