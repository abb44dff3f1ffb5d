import { constants, existsSync, type Stats } from 'node:fs';
import { access, appendFile, mkdir, open, readdir, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import type * as z from 'zod/mini';
import { codeOf, messageOf, SafemigrateError } from '../errors.ts';
import { homeFolder } from '../postgres/connection/environment.ts';

/** Returns `$XDG_STATE_HOME/safemigrate`, or its place under the home folder. */
export function stateFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const state = environment.XDG_STATE_HOME;
  const base = state?.startsWith('/') ? state : path.join(homeFolder(environment.HOME), '.local', 'state');
  return path.join(base, 'safemigrate');
}

/** Returns why this user can make no file in a folder, for the end of a sentence; undefined if they can. Changes nothing. */
export async function whyUnusable(folder: string): Promise<string | undefined> {
  try {
    // The slash makes it fail for a file.
    await access(`${folder}/`, constants.W_OK | constants.X_OK);
    const { blocks, bfree, bavail } = await statfs(folder);
    const free = process.geteuid?.() === 0 ? bfree : bavail;
    // A file system without a limit has no blocks.
    return blocks > 0 && free === 0 ? `no space is left in ${folder}` : undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** The same for the state folder, or the one in which it would be made. */
export async function whyNoState(folder = stateFolder()): Promise<string | undefined> {
  if (existsSync(folder) || path.dirname(folder) === folder) return whyUnusable(folder);
  return whyNoState(path.dirname(folder));
}

/** Creates a folder in the state folder. @throws Error with the true reason: of a read-only file system mkdir() says ENOENT. */
export async function makeStateFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new Error((await whyNoState(folder)) ?? messageOf(error), { cause: error });
  }
}

/**
 * Appends a state as one line, which survives a loss of power; the last complete line counts, so a kill leaves the former state and
 * no other file.
 * @throws SafemigrateError `CONFIGURATION`
 */
export async function writeStateFile(file: string, content: unknown): Promise<void> {
  try {
    await makeStateFolder(path.dirname(file));
    const foreign = await foreignFolder(path.dirname(file));
    if (foreign !== undefined) throw new Error(foreign);
    await appendFile(file, `${JSON.stringify(content)}\n`, { mode: 0o600, flush: true });
  } catch (error) {
    throw new SafemigrateError('CONFIGURATION', `${file} cannot be written: ${messageOf(error)}.`, {
      cause: error,
      hint: 'Clones are recorded there before they are created. Set XDG_STATE_HOME to a folder that you can write to.',
    });
  }
}

/**
 * Lists a folder in the state folder; empty if it does not exist yet, or others could have written there.
 * @throws SafemigrateError `CONFIGURATION`
 */
export async function namesIn(folder: string): Promise<string[]> {
  if ((await foreignFolder(folder)) !== undefined) return [];
  try {
    return await readdir(folder);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw new SafemigrateError('CONFIGURATION', `${folder} cannot be read: ${messageOf(error)}.`, {
      cause: error,
      hint: 'Runs are recorded there. Set HOME or XDG_STATE_HOME to a folder that you can read.',
    });
  }
}

export interface UnreadableFile {
  readonly file: string;
  readonly unreadable: string;
}

const OTHERS_MAY_WRITE = 0o022;

/**
 * Returns why others could have written something, for the end of a sentence; undefined if only this user could. State files
 * name commands to run, processes to end, and folders to remove.
 */
function whyForeign({ uid, mode }: Stats): string | undefined {
  const own = process.geteuid?.() ?? uid;
  if (uid !== own) return `belongs to the user with the id ${uid}, and this is the user with the id ${own}`;
  return (mode & OTHERS_MAY_WRITE) === 0 ? undefined : 'may be written by other users (chmod go-w)';
}

/** Returns why nothing in a folder of the state folder is to be trusted; undefined if it is, or is not there. */
async function foreignFolder(folder: string): Promise<string | undefined> {
  for (const each of [path.dirname(folder), folder]) {
    const found = await stat(each).catch(() => undefined);
    const why = found && whyForeign(found);
    if (why !== undefined) return `${each} ${why}`;
  }
  return undefined;
}

async function readOwn(file: string): Promise<string> {
  const opened = await open(file);
  try {
    const why = whyForeign(await opened.stat());
    if (why !== undefined) throw new Error(`it ${why}`);
    return await opened.readFile('utf8');
  } finally {
    await opened.close();
  }
}

/** Reads the folder's files, by name; those that cannot be read, or that others could have written, with the reason. */
export async function readStateFiles<T>(
  folder: string,
  schema: z.ZodMiniType<T>,
): Promise<(T | UnreadableFile)[]> {
  const foreign = existsSync(folder) ? await foreignFolder(folder) : undefined;
  if (foreign !== undefined) return [{ file: folder, unreadable: foreign }];
  const files = (await namesIn(folder)).filter((name) => name.endsWith('.json')).sort();
  return Promise.all(
    files.map(async (name) => {
      const file = path.join(folder, name);
      try {
        const lines = (await readOwn(file)).trimEnd().split('\n');
        const { data, error } = schema.safeParse(JSON.parse(lines.at(-1) ?? ''));
        if (data !== undefined) return data;
        return { file, unreadable: `invalid ${error?.issues[0]?.path.join('.') || 'content'}` };
      } catch (error) {
        return { file, unreadable: messageOf(error) };
      }
    }),
  );
}
