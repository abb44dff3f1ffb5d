import { link, mkdir, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { makeWorkFolder } from '../local-server/folder-cleaner.ts';

const OWN_FILE = { flag: 'wx', mode: 0o600 } as const;

/**
 * Writes a file that only its owner may read, whole or not at all. What a kill leaves, its guard or `clean` removes.
 * @param of what it belongs to, for people. @throws Error if there is one already
 */
export async function writeFileWhole(file: string, text: string, of: string): Promise<void> {
  const { folder, guard } = await makeWorkFolder(path.dirname(file), 'script', of);
  try {
    const draft = path.join(folder, 'draft');
    await writeFile(draft, text, OWN_FILE);
    await link(draft, file);
  } finally {
    await guard.dismiss();
  }
}

/**
 * The same for a folder of files, by their paths in it.
 * @throws Error if there is one already, unless it is empty
 */
export async function writeFolderWhole(
  target: string,
  files: ReadonlyMap<string, string>,
  of: string,
): Promise<void> {
  const { folder, guard } = await makeWorkFolder(path.dirname(target), 'script', of);
  try {
    const draft = path.join(folder, 'draft');
    await mkdir(draft, { mode: 0o700 });
    for (const [name, text] of files) {
      const file = path.join(draft, name);
      await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
      await writeFile(file, text, OWN_FILE);
    }
    await rename(draft, target);
  } finally {
    await guard.dismiss();
  }
}
