import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { PAGE } from '../../bench/page.ts';
import { type Figures, figuresOf, renderFigures } from '../../bench/render-figures.ts';
import { readResults } from '../../bench/results.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const results = readResults(root);
const tables = PAGE.flatMap((section) => section.tables);

describe('the page of the benchmarks', () => {
  test('is what their results render to, and edited by nobody', () => {
    expect(readFileSync(`${root}docs/benchmarks.md`, 'utf8')).toBe(renderFigures(PAGE, results));
  });

  test('names figures that there are, and stays short when all of them are shown', () => {
    expect(tables.filter((each) => figuresOf(each, results).length === 0)).toEqual([]);
    const everything = Object.entries(results).map(([file, list]) => [
      file,
      list.map(({ outdated: _, ...figures }) => figures),
    ]);
    const lines = renderFigures(PAGE, Object.fromEntries(everything)).split('\n');
    expect(lines.length).toBeLessThanOrEqual(250);
  });

  test('has a column for each key of any row, and leaves out what is outdated', () => {
    const rows = [
      { what: 'a', ms: 1 },
      { what: 'b', ratio: '2.00' },
    ];
    const figures: Figures = { title: 'T', measured: 'today', rows, notes: ['N'] };
    const page = [{ heading: 'H', tables: [{ file: 'x.bench.ts', title: 'T', code: [] }] }];
    expect(renderFigures(page, { 'x.bench.ts': [figures] })).toContain(
      '## H\n\n### T\n\nMeasured today.\n\n| what | ms | ratio |\n| --- | --- | --- |\n| a | 1 |  |\n| b |  | 2.00 |\n\nN',
    );
    expect(renderFigures(page, { 'x.bench.ts': [{ ...figures, outdated: true }] })).not.toContain('## H');
  });
});
