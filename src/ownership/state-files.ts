import { appendFile, mkdir, readdir, readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import type * as z from 'zod/mini';
import { messageOf, SafemigrateError } from '../errors.ts';

/** Returns `$XDG_STATE_HOME/safemigrate`, or its place under the home folder. */
export function stateFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const state = environment.XDG_STATE_HOME;
  const base = state?.startsWith('/') ? state : path.join(environment.HOME || homedir(), '.local', 'state');
  return path.join(base, 'safemigrate');
}

/**
 * Appends a state as one line; the last complete line counts, so a kill leaves the former state and no other file.
 * @throws SafemigrateError `CONFIGURATION`
 */
export async function writeStateFile(file: string, content: unknown): Promise<void> {
  try {
    await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
    await appendFile(file, `${JSON.stringify(content)}\n`, { mode: 0o600, flush: true });
  } catch (error) {
    throw new SafemigrateError('CONFIGURATION', `${file} cannot be written: ${messageOf(error)}`, {
      cause: error,
      hint: 'Clones are recorded there before they are created. Set XDG_STATE_HOME to a folder that you can write to.',
    });
  }
}

/** Lists a folder in the state folder; empty if it does not exist yet. @throws SafemigrateError `CONFIGURATION` */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
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

/** Reads the folder's files, by name; those that cannot be read with the reason. */
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
