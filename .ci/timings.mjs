// Where the time of `.ci/run` went. As a program, node .ci/timings.mjs < LOG: writes what the run with this log said about it into
// test/README.md. Only figures of a quiet machine belong there.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const README = fileURLToPath(new URL('../test/README.md', import.meta.url));
const BEGINS = '<!-- timings -->';
const ENDS = '<!-- end of timings -->';
const DEAREST = 20;

/** What a run took, by the .timings that `helpers/timings.ts` has written into this folder, and bash's `times`: a line per file, and the block. */
export function timingsOf(folder) {
  const files = readdirSync(folder)
    .filter((name) => name.endsWith('.timings'))
    .flatMap((name) => readFileSync(`${folder}/${name}`, 'utf8').split('\n').filter(Boolean))
    .map((line) => JSON.parse(line));
  const perFile = sums(files.map(({ file, seconds }) => [file.replace(/^test\//, ''), seconds]));
  const perArea = sums(perFile.map(([file, seconds]) => [areaOf(file), seconds]));
  const workers = perFile.reduce((sum, [, seconds]) => sum + seconds, 0);
  const processors = processorSeconds(`${folder}/times`);
  return [
    ...perFile.map(([file, seconds]) => `${seconds.toFixed(1)} s ${file}`),
    BEGINS,
    `On ${new Date().toISOString().slice(0, 10)} ${perFile.length} files took ${workers.toFixed(0)} s of their workers, and the whole run ${processors.toFixed(0)} s of the processors.`,
    ...table('area', perArea),
    ...table('dearest files', perFile.slice(0, DEAREST)),
    '',
    ENDS,
  ].join('\n');
}

function table(title, entries) {
  return [
    '',
    `| ${title} | s |`,
    '|---|---|',
    ...entries.map(([name, s]) => `| ${name} | ${s.toFixed(0)} |`),
  ];
}

/** `e2e`, `postgres/hazards`: of `postgres`, which has the most files, the folder in it. */
function areaOf(file) {
  const [first, second] = file.split('/');
  return first === 'postgres' ? `${first}/${second}` : first;
}

/** The largest first. */
function sums(entries) {
  const all = new Map();
  for (const [name, seconds] of entries) all.set(name, (all.get(name) ?? 0) + seconds);
  return [...all].sort(([, one], [, other]) => other - one);
}

/** The second line of bash's `times` is that of all processes that the shell has waited for: `12m3.456s 1m2.000s`. */
function processorSeconds(file) {
  const [, children = ''] = readFileSync(file, 'utf8').split('\n');
  return [...children.matchAll(/(\d+)m([\d.]+)s/g)].reduce((sum, [, m, s]) => sum + m * 60 + Number(s), 0);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const block = partOf(readFileSync(0, 'utf8')).text;
  const readme = readFileSync(README, 'utf8');
  const { start, end } = partOf(readme);
  writeFileSync(README, readme.slice(0, start) + block + readme.slice(end));
}

/** The last block of a text. */
function partOf(text) {
  const start = text.lastIndexOf(BEGINS);
  const end = text.indexOf(ENDS, start);
  if (start < 0 || end < 0) throw new Error(`there is no block between ${BEGINS} and ${ENDS}`);
  return { start, end, text: text.slice(start, end) };
}
