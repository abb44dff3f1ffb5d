import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { renderFigures } from '../../bench/render-figures.ts';

const docs = (file: string) => readFileSync(new URL(`../../../docs/${file}`, import.meta.url), 'utf8');

describe('the page of the benchmarks', () => {
  test('is what their figures render to, and edited by nobody', () => {
    expect(docs('benchmarks.md')).toBe(renderFigures(JSON.parse(docs('benchmarks.json'))));
  });

  test('has a column for each key of any row', () => {
    const rows = [
      { what: 'a', ms: 1 },
      { what: 'b', ratio: '2.00' },
    ];
    const page = renderFigures({ 'x.bench.ts': [{ title: 'T', measured: 'today', rows, notes: ['N'] }] });
    expect(page).toContain('| what | ms | ratio |\n| --- | --- | --- |\n| a | 1 |  |\n| b |  | 2.00 |');
  });
});
