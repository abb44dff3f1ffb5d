// npm run figures: marks each figure of docs/benchmarks.md whose code was committed after the day on which it was measured, which takes
// it off the page until its benchmark runs again, and writes the page.
import { execFileSync } from 'node:child_process';
import { PAGE } from './bench/page.ts';
import { type Figures, figuresOf } from './bench/render-figures.ts';
import { readResults, writeResults } from './bench/results.ts';

const changedOn = (code: readonly string[]) =>
  execFileSync('git', ['log', '-1', '--format=%cs', '--', ...code.map((place) => `src/${place}`)], {
    encoding: 'utf8',
  }).trim();

const all = readResults('.');
const outdated = new Map<Figures, boolean>();
for (const table of PAGE.flatMap(({ tables }) => tables)) {
  const changed = changedOn(table.code);
  for (const figures of figuresOf(table, all)) {
    const measured = figures.measured.slice(0, 10);
    outdated.set(figures, measured < changed);
    const answer = measured < changed ? `left out: its code changed on ${changed}` : 'shown';
    console.log(`${table.file}: ${figures.title} (${measured}): ${answer}`);
  }
}
for (const [file, list] of Object.entries(all))
  writeResults(
    '.',
    file,
    list.map((each) => marked(each, outdated.get(each) ?? false)),
  );

function marked({ outdated: _, ...figures }: Figures, isOutdated: boolean): Figures {
  return isOutdated ? { ...figures, outdated: true } : figures;
}
