import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Report } from '../../model/report.ts';
import type { Location } from '../../report/sarif.ts';

/** Folders of dependencies and of build output. */
const SKIPPED = new Set(['node_modules', 'dist', 'build', 'vendor', 'target', '__pycache__']);
/** Endings of files that may contain statements. */
const ENDINGS = /\.(sql|psql|ddl|js|cjs|mjs|ts|cts|mts|py|rb|go|java|kt|php|xml|ya?ml)$/;
const MAX_FILES = 5_000;
const MAX_BYTES = 1024 * 1024;
/** Shorter statements, such as `COMMIT`, are in every file. */
const SHORTEST = 15;

/**
 * Finds the statements of hazards in files of the working tree by their text; whitespace may differ. Of several places the
 * first one counts.
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
  for (const file of await sources(folder)) {
    const text = await readFile(path.join(folder, file), 'utf8').catch(() => '');
    const { text: squeezedText, offsets } = squeezed(text);
    for (const { index, words } of wanted) {
      const at = found.has(index) ? -1 : squeezedText.indexOf(words);
      if (at === -1) continue;
      const line = text.slice(0, offsets[at]).split('\n').length;
      found.set(index, { file: file.split(path.sep).join('/'), line });
    }
    if (found.size === wanted.length) break;
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

async function sources(folder: string, within = '', found: string[] = []): Promise<string[]> {
  const entries = await readdir(path.join(folder, within), { withFileTypes: true }).catch(() => []);
  for (const entry of entries.sort((one, other) => one.name.localeCompare(other.name))) {
    if (found.length >= MAX_FILES) return found;
    const name = path.join(within, entry.name);
    if (entry.isDirectory()) {
      if (!SKIPPED.has(entry.name) && !entry.name.startsWith('.')) await sources(folder, name, found);
    } else if (entry.isFile() && ENDINGS.test(entry.name)) {
      const { size } = await stat(path.join(folder, name)).catch(() => ({ size: MAX_BYTES + 1 }));
      if (size <= MAX_BYTES) found.push(name);
    }
  }
  return found;
}
