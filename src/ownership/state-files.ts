import { appendFile, mkdir, readdir, readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import type * as z from 'zod/mini';
import { messageOf, SafemigrateError } from '../errors.ts';

/** `$XDG_STATE_HOME/safemigrate`, or its place under the home folder. */
export function stateFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const state = environment.XDG_STATE_HOME;
  const base = state?.startsWith('/') ? state : path.join(environment.HOME || homedir(), '.local', 'state');
  return path.join(base, 'safemigrate');
}

/**
 * One line for each state of it, of which the last counts: a line is there in full or not at all, and nothing has to be
 * removed beside the file.
 * @throws SafemigrateError `CONFIGURATION`
 */
export async function writeStateFile(file: string, content: unknown): Promise<void> {
  try {
    await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
    await appendFile(file, `${JSON.stringify(content)}\n`, { mode: 0o600, flush: true });
  } catch (error) {
    throw new SafemigrateError('CONFIGURATION', `${file} cannot be written: ${messageOf(error)}`, {
      cause: error,
      hint: 'It is where clones are recorded before they are made. Set XDG_STATE_HOME to a folder of yours.',
    });
  }
}

/** @returns what is in a folder of the state folder; nothing where it was not made yet. @throws SafemigrateError `CONFIGURATION` */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw new SafemigrateError('CONFIGURATION', `${folder} cannot be read: ${messageOf(error)}.`, {
      cause: error,
      hint: 'It is where runs are recorded. Set HOME or XDG_STATE_HOME to a folder of yours.',
    });
  }
}

export interface UnreadableFile {
  readonly file: string;
  readonly unreadable: string;
}

/** @returns what the folder's files hold, by name; those that cannot be read with the reason. */
export async function readStateFiles<T>(
  folder: string,
  schema: z.ZodMiniType<T>,
): Promise<(T | UnreadableFile)[]> {
  const files = (await namesIn(folder)).filter((name) => name.endsWith('.json')).sort();
  return Promise.all(
    files.map(async (name) => {
      const file = path.join(folder, name);
      try {
        const lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
        const { data, error } = schema.safeParse(JSON.parse(lines.at(-1) ?? ''));
        if (data !== undefined) return data;
        return { file, unreadable: `invalid ${error?.issues[0]?.path.join('.') || 'content'}` };
      } catch (error) {
        return { file, unreadable: messageOf(error) };
      }
    }),
  );
}
