// Where the time of `.ci/run` went. As a program, node .ci/timings.mjs < LOG: writes what the run with this log said about it into
// test/README.md. Only figures of a quiet machine belong there.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const README = fileURLToPath(new URL('../test/README.md', import.meta.url));
const BEGINS = '<!-- timings -->';
const ENDS = '<!-- end of timings -->';
const DEAREST = 20;

/** The block in Markdown, of the .timings that `helpers/timings.ts` has written in this folder, and bash's `times`. */
export function timingsOf(folder) {
  const files = readdirSync(folder)
    .filter((name) => name.endsWith('.timings'))
    .flatMap((name) => readFileSync(`${folder}/${name}`, 'utf8').trim().split('\n').filter(Boolean))
    .map((line) => JSON.parse(line));
  const rows = (title, entries) => [
    '',
    `| ${title} | s |`,
    '|---|---|',
    ...entries
      .toSorted(([, one], [, other]) => other - one)
      .map(([name, s]) => `| ${name} | ${s.toFixed(0)} |`),
  ];
  const perFile = totals(files.map(({ file, seconds }) => [file.replace(/^test\//, ''), seconds]));
  const perArea = totals(perFile.map(([file, seconds]) => [areaOf(file), seconds]));
  const processor = processorSeconds(`${folder}/times`);
  const sum = perFile.reduce((s, [, seconds]) => s + seconds, 0);
  const of = `${new Date().toISOString().slice(0, 10)}: ${files.length} files, ${sum.toFixed(0)} s of the workers`;
  return [
    BEGINS,
    `${of}${processor === null ? '' : `, ${processor.toFixed(0)} s of the processors for the whole run`}.`,
    ...rows('area', perArea),
    ...rows('the dearest files', perFile.toSorted(([, one], [, other]) => other - one).slice(0, DEAREST)),
    '',
    ENDS,
  ].join('\n');
}

/** `postgres/hazards`, `e2e`: the folder, and the folder in it where one holds most of the files. */
function areaOf(file) {
  const [first, second = ''] = file.split('/');
  return first === 'postgres' ? `${first}/${second}` : first;
}

function totals(entries) {
  const sums = new Map();
  for (const [name, seconds] of entries) sums.set(name, (sums.get(name) ?? 0) + seconds);
  return [...sums];
}

/** The second line of bash's `times` is that of all processes that the shell has waited for: `12m3.456s 1m2.000s`. */
function processorSeconds(file) {
  if (!existsSync(file)) return null;
  const [, children = ''] = readFileSync(file, 'utf8').split('\n');
  return [...children.matchAll(/(\d+)m([\d.]+)s/g)].reduce(
    (s, [, m, seconds]) => s + m * 60 + Number(seconds),
    0,
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const log = readFileSync(0, 'utf8');
  const readme = readFileSync(README, 'utf8');
  writeFileSync(
    README,
    before(readme, BEGINS) + log.slice(log.lastIndexOf(BEGINS), log.lastIndexOf(ENDS)) + after(readme, ENDS),
  );
}

function before(text, mark) {
  return text.slice(0, text.indexOf(mark));
}

function after(text, mark) {
  return text.slice(text.indexOf(mark));
}
