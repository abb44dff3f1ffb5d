import { link, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { makeWorkFolder } from '../local-server/work-folder.ts';

const OWN_FILE = { flag: 'wx', mode: 0o600 } as const;

/**
 * Writes a file that nobody but its owner may read, whole or not at all. What a kill leaves, its guard or `clean` removes.
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
