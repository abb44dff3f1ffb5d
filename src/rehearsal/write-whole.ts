import { closeSync, fstatSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { link, mkdir, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { makeWorkFolder } from '../local-server/folder-cleaner.ts';

const OWN_FILE = { flag: 'wx', mode: 0o600 } as const;

/** Writes a file. If it cannot be written to its end it is removed, so that no reader gets a part of it. @throws Node's error */
export function overwriteFile(file: string, text: string, mode = 0o666): void {
  const opened = openSync(file, 'w', mode);
  try {
    writeFileSync(opened, text);
  } catch (error) {
    // A device or a pipe is not ours.
    if (fstatSync(opened).isFile()) rmSync(file, { force: true });
    throw error;
  } finally {
    closeSync(opened);
  }
}

/**
 * Writes a file that only its owner may read, whole or not at all.
 * @param of what it belongs to, for people. @throws Error if there is one already
 */
export function writeFileWhole(file: string, text: string, of: string): Promise<void> {
  return throughDraft(file, of, async (draft) => {
    await writeFile(draft, text, OWN_FILE);
    await link(draft, file);
  });
}

/**
 * Writes a folder of files in the same way, by their paths in it.
 * @throws Error if there is one already, unless it is empty
 */
export function writeFolderWhole(
  target: string,
  files: ReadonlyMap<string, string>,
  of: string,
): Promise<void> {
  return throughDraft(target, of, async (draft) => {
    await mkdir(draft, { mode: 0o700 });
    for (const [name, text] of files) {
      const file = path.join(draft, name);
      await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
      await writeFile(file, text, OWN_FILE);
    }
    await rename(draft, target);
  });
}

/** Writes a draft beside the target, in a folder that its guard or `clean` removes if this process is killed. */
async function throughDraft(
  target: string,
  of: string,
  write: (draft: string) => Promise<void>,
): Promise<void> {
  const { folder, guard } = await makeWorkFolder(path.dirname(target), 'script', of);
  try {
    await write(path.join(folder, 'draft'));
  } finally {
    await guard.dismiss();
  }
}
