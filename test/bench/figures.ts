import { cpus, loadavg } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import type { Figures } from './render-figures.ts';
import { readResults, writeResults } from './results.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Prints the rows, and stores them in place of what the same title had before. */
export function recordFigures(title: string, rows: Figures['rows'], notes: readonly string[] = []): void {
  const [load = 0] = loadavg();
  const measured = `${new Date().toISOString().slice(0, 10)}, Node ${process.versions.node}, ${cpus().length} processors, load ${load.toFixed(1)}`;
  const figures: Figures = { title, measured, rows, notes };
  console.log(`\n${title} (${measured})`);
  console.table(rows);
  for (const note of notes) console.log(`  ${note}`);
  const file = path.basename(expect.getState().testPath ?? 'unknown');
  const others = (readResults(ROOT)[file] ?? []).filter((each) => each.title !== title);
  writeResults(ROOT, file, [...others, figures]);
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

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [low, high] = [sorted[sorted.length % 2 === 0 ? middle - 1 : middle], sorted[middle]];
  return ((low ?? 0) + (high ?? 0)) / 2;
}
