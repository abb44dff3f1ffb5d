import { chown, lstat, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import * as z from 'zod/mini';
import { messageOf, SafemigrateError } from '../errors.ts';
import { type RunId, runIdSchema } from './run-id.ts';

/** The content of the file by which a folder that safemigrate made on this machine is recognised before it is removed. */
const folderMark = z.object({
  version: z.literal(1),
  run: runIdSchema,
  /** A copy of the folder has the same mark in it, and another path or number (inode). */
  at: z.object({ path: z.string(), inode: z.string() }),
});

export type FolderMark = Readonly<z.infer<typeof folderMark>>;

const NAME = 'mark.json';
const UNFINISHED = `${NAME}.new`;

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * A folder that only its owner may enter.
 * @param owner of the operating system, where we are root. Default: us.
 * @throws SafemigrateError `CLONE`
 */
export async function makeFolder(folder: string, owner?: Owner): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o700 });
    if (owner && process.getuid?.() === 0) await chown(folder, owner.uid, owner.gid);
  } catch (error) {
    throw new SafemigrateError('CLONE', `The folder ${folder} could not be made: ${messageOf(error)}.`, {
      cause: error,
      hint: 'Set TMPDIR to a folder of yours, or name one for clones with --clone-dir. The target was not touched by it.',
    });
  }
}

/**
 * Marks a new folder, which may belong to another user already: nothing that may stand there is written through.
 * @param owner whom the mark is to belong to, where we are root.
 */
export async function markFolder(folder: string, run: RunId, owner?: Owner): Promise<void> {
  const { ino } = await lstat(folder);
  const mark: FolderMark = { version: 1, run, at: { path: folder, inode: String(ino) } };
  const fresh = path.join(folder, UNFINISHED);
  await rm(fresh, { recursive: true, force: true });
  const handle = await open(fresh, 'wx', 0o600);
  try {
    await handle.writeFile(JSON.stringify(mark));
    if (owner && process.getuid?.() === 0) await handle.chown(owner.uid, owner.gid);
  } finally {
    await handle.close();
  }
  await rename(fresh, path.join(folder, NAME));
}

/** Why the folder cannot be said to be the one that was marked for this run; null where it is, or is not there. */
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

/** Its making was cut off before its mark was in place. */
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
