import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { PAGE } from './page.ts';
import { type Figures, type FiguresByFile, renderFigures } from './render-figures.ts';

const RESULTS = path.join('test', 'bench', 'results');
const PAGE_FILE = path.join('docs', 'benchmarks.md');

/** @param root the folder of this checkout. */
export function readResults(root: string): FiguresByFile {
  const folder = path.join(root, RESULTS);
  return Object.fromEntries(
    readdirSync(folder)
      .sort()
      .map((name) => [
        name.replace(/\.json$/, ''),
        JSON.parse(readFileSync(path.join(folder, name), 'utf8')),
      ]),
  );
}

/** Stores what a file has measured, and writes the page anew. */
export function writeResults(root: string, file: string, figures: readonly Figures[]): void {
  writeFileSync(path.join(root, RESULTS, `${file}.json`), `${JSON.stringify(figures, null, 2)}\n`);
  writeFileSync(path.join(root, PAGE_FILE), renderFigures(PAGE, readResults(root)));
}
