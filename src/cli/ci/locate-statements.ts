import { execFile } from 'node:child_process';
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Report } from '../../model/report.ts';
import type { Location } from '../../report/sarif.ts';

/** Folders of dependencies and of build output. */
const SKIPPED = new Set(['node_modules', 'dist', 'build', 'vendor', 'target', '__pycache__']);
/** Endings of files that may contain statements. */
const ENDINGS = /\.(sql|psql|ddl|js|cjs|mjs|ts|cts|mts|py|rb|go|java|kt|php|xml|ya?ml)$/;
/** Paths of migrations, as most tools have them. */
const LIKELY = /migrat|\.(?:sql|psql|ddl)$/i;
const MAX_FILES = 5_000;
/** Limit for a folder that is not git's. */
const MAX_ENTRIES = 50_000;
const MAX_BYTES = 1024 * 1024;
/** Limit for all files together. */
const MAX_BYTES_READ = 64 * 1024 * 1024;
const GIT_MS = 5_000;
const MAX_LIST_BYTES = 64 * 1024 * 1024;
/** Shorter statements, such as `COMMIT`, are in every file. */
const SHORTEST = 15;

/**
 * Finds the statements of hazards in files of the working tree by their text; whitespace may differ. Of several places the
 * first one counts, and in a very large tree not all are searched.
 */
export async function locateStatements(
  { hazards, statements }: Pick<Report, 'hazards' | 'statements'>,
  folder: string,
): Promise<Map<number, Location>> {
  const numbers = new Set(hazards.flatMap(({ statement }) => (statement === null ? [] : [statement])));
  const wanted = statements
    .filter(({ index }) => numbers.has(index))
    .map(({ index, sql }) => ({ index, words: squeezed(sql).text }))
    .filter(({ words }) => words.length >= SHORTEST);
  const found = new Map<number, Location>();
  if (wanted.length === 0) return found;
  let bytes = 0;
  for (const file of await sources(folder)) {
    const text = await readSource(path.join(folder, file));
    bytes += text.length;
    // Positions are looked up only in the few files that hold a statement.
    const plain = text.toLowerCase().replaceAll(/\s+/g, ' ');
    const held = wanted.filter(({ index, words }) => !found.has(index) && plain.includes(words));
    const { text: squeezedText, offsets } = held.length > 0 ? squeezed(text) : { text: '', offsets: [] };
    for (const { index, words } of held) {
      const at = squeezedText.indexOf(words);
      if (at === -1) continue;
      const line = text.slice(0, offsets[at]).split('\n').length;
      found.set(index, { file: file.split(path.sep).join('/'), line });
    }
    if (found.size === wanted.length || bytes > MAX_BYTES_READ) break;
  }
  return found;
}

/** Returns the text in lower case with single blanks, and the original position of each character. */
function squeezed(text: string): { text: string; offsets: number[] } {
  const offsets: number[] = [];
  let result = '';
  for (const match of text.matchAll(/\s+|\S/g)) {
    const blank = /^\s/.test(match[0]);
    if (blank && (result === '' || result.endsWith(' '))) continue;
    result += blank ? ' ' : match[0].toLowerCase().slice(0, 1);
    offsets.push(match.index);
  }
  return { text: result.replace(/[\s;]+$/, ''), offsets };
}

/** Lists the files to search, those first that are likely to be migrations. */
async function sources(folder: string): Promise<string[]> {
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

/** Reads a file, unless it is too large to have been written by a person. */
async function readSource(file: string): Promise<string> {
  const { size } = await stat(file).catch(() => ({ size: 0 }));
  return size > MAX_BYTES ? '' : await readFile(file, 'utf8').catch(() => '');
}
