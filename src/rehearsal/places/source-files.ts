import { execFile } from 'node:child_process';
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

/** Folders of dependencies and of build output. */
const SKIPPED = new Set(['node_modules', 'dist', 'build', 'vendor', 'target', '__pycache__']);
/** Endings of files that may contain statements. */
const ENDINGS = /\.(sql|psql|ddl|js|cjs|mjs|ts|cts|mts|py|rb|go|java|kt|php|xml|ya?ml)$/;
/** Paths of migrations, as most tools have them. */
const LIKELY = /migrat|\.(?:sql|psql|ddl)$/i;
const MAX_FILES = 5_000;
/** Limit for a folder that is not git's. */
const MAX_ENTRIES = 20_000;
const MAX_BYTES = 1024 * 1024;
const GIT_MS = 5_000;
const MAX_LIST_BYTES = 64 * 1024 * 1024;

/** The first line of each file that --propose writes: its statements came from elsewhere. */
export const PROPOSAL_HEADING = 'A safer form of a migration, written by safemigrate --propose.';

/** Lists the files of a working folder that may contain statements, those first that are likely to be migrations. */
export async function sourceFiles(folder: string): Promise<string[]> {
  const names = (await listedByGit(folder)) ?? (await listedByWalking(folder));
  const wanted = names.filter((name) => ENDINGS.test(name) && !name.split(path.sep).some(isSkipped));
  const likely = (name: string) => Number(!LIKELY.test(name));
  return wanted
    .sort((one, other) => likely(one) - likely(other) || one.localeCompare(other))
    .slice(0, MAX_FILES);
}

function isSkipped(part: string): boolean {
  return SKIPPED.has(part);
}

/** Files that git has, or would add. @returns undefined if the folder is in no working tree, or git is not installed. */
async function listedByGit(folder: string): Promise<string[] | undefined> {
  try {
    const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
    const { stdout } = await promisify(execFile)('git', args, {
      cwd: folder,
      timeout: GIT_MS,
      maxBuffer: MAX_LIST_BYTES,
    });
    return stdout.split('\0').filter(Boolean).map(path.normalize);
  } catch {
    return undefined;
  }
}

async function listedByWalking(folder: string): Promise<string[]> {
  const found: string[] = [];
  const waiting = [''];
  for (
    let within = waiting.shift();
    within !== undefined && found.length < MAX_ENTRIES;
    within = waiting.shift()
  ) {
    const entries = await readdir(path.join(folder, within), { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      const name = path.join(within, entry.name);
      if (entry.isFile()) found.push(name);
      else if (entry.isDirectory() && !isSkipped(entry.name) && !entry.name.startsWith('.'))
        waiting.push(name);
    }
  }
  return found;
}

/** Reads a file of the folder, unless it is too large to have been written by a person. */
export async function readSource(folder: string, name: string): Promise<string> {
  const file = path.join(folder, name);
  const { size } = await stat(file).catch(() => ({ size: 0 }));
  return size > MAX_BYTES ? '' : await readFile(file, 'utf8').catch(() => '');
}
