import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { type Figures, type FiguresByFile, renderFigures } from './render-figures.ts';

const DOCS = fileURLToPath(new URL('../../docs', import.meta.url));
const JSON_FILE = path.join(DOCS, 'benchmarks.json');

/** Prints the rows, and stores them in place of what the same title had before. */
export function recordFigures(title: string, rows: Figures['rows'], notes: readonly string[] = []): void {
  const [load = 0] = loadavg();
  const measured = `${new Date().toISOString().slice(0, 10)}, Node ${process.versions.node}, ${cpus().length} processors, load ${load.toFixed(1)}`;
  const figures: Figures = { title, measured, rows, notes };
  console.log(`\n${title} (${measured})`);
  console.table(rows);
  for (const note of notes) console.log(`  ${note}`);
  const file = path.basename(expect.getState().testPath ?? 'unknown');
  const all = readFigures();
  const others = (all[file] ?? []).filter((each) => each.title !== title);
  const updated = { ...all, [file]: [...others, figures] };
  writeFileSync(JSON_FILE, `${JSON.stringify(updated, null, 2)}\n`);
  writeFileSync(path.join(DOCS, 'benchmarks.md'), renderFigures(updated));
}

/** Records one row for each time: how long it took, and how many times as long `subject` took. */
export function recordRatios(
  title: string,
  milliseconds: Readonly<Record<string, number>>,
  subject: string,
  notes: readonly string[] = [],
): void {
  const own = milliseconds[subject] ?? 0;
  const rows = Object.entries(milliseconds).map(([name, ms]) => ({
    what: name,
    ms: Math.round(ms),
    [`${subject} / this`]: name === subject ? '' : (own / ms).toFixed(2),
  }));
  recordFigures(title, rows, notes);
}

function readFigures(): FiguresByFile {
  return existsSync(JSON_FILE) ? (JSON.parse(readFileSync(JSON_FILE, 'utf8')) as FiguresByFile) : {};
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [low, high] = [sorted[sorted.length % 2 === 0 ? middle - 1 : middle], sorted[middle]];
  return ((low ?? 0) + (high ?? 0)) / 2;
}
