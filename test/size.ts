// npm run size: how large the program is, and what must be known to change it. Prints the figures; with --write it also puts them into
// src/README.md. It judges nothing.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { withBlock } from './helpers/marked-block.ts';

const TRUNK = 'src/rehearsal/rehearse.ts';
const RULES = 'src/hazards/kinds/';
const README = 'src/README.md';

const filesOf = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.posix.join(entry.parentPath, entry.name))
    .sort();

const texts = new Map(['src', 'test'].flatMap(filesOf).map((file) => [file, readFileSync(file, 'utf8')]));
const sources = [...texts.keys()].filter((file) => /^src\/.*\.(ts|sh|py|pl)$/.test(file));
const tests = [...texts.keys()].filter((file) => /^test\/.*\.m?ts$/.test(file));
const textOf = (file: string) => texts.get(file) ?? '';
const linesOf = (files: readonly string[]) =>
  files.reduce((sum, file) => sum + textOf(file).split('\n').length - 1, 0);
const size = (files: readonly string[]) => `${thousands(linesOf(files))} in ${files.length} files`;
const thousands = (count: number) => count.toLocaleString('en-US');

interface Import {
  readonly to: string;
  /** Empty for what is imported when it is needed, or as a whole. */
  readonly names: readonly string[];
}

function importsOf(file: string): Import[] {
  const found = textOf(file).matchAll(
    /^(?:import|export)\s+(?:type\s+)?(?:\{([^}]*)\}|[^'";{]*)\s*from\s*'(\.[^']+)'|\bimport\(\s*'(\.[^']+)'\s*\)/gm,
  );
  return [...found].map(([, names = '', now, later]) => ({
    to: path.posix.join(path.posix.dirname(file), now ?? later ?? ''),
    names: names
      .split(',')
      .map((name) =>
        name
          .trim()
          .replace(/^type /, '')
          .replace(/ as .*/, ''),
      )
      .filter((name) => name !== ''),
  }));
}

const imports = new Map(sources.map((file) => [file, importsOf(file).filter(({ to }) => texts.has(to))]));

function closureOf(file: string, reached = new Set<string>()): Set<string> {
  if (reached.has(file)) return reached;
  reached.add(file);
  for (const { to } of imports.get(file) ?? []) closureOf(to, reached);
  return reached;
}

const folderOf = (file: string) => file.split('/')[1] ?? '';

/** How many names of each folder other folders import. */
function namesGiven(): string[] {
  const given = new Map<string, Set<string>>();
  for (const [from, all] of imports)
    for (const { to, names } of all) {
      const folder = folderOf(to);
      if (folder === folderOf(from) || folder.includes('.')) continue;
      const known = given.get(folder) ?? new Set();
      given.set(folder, known);
      for (const name of names) known.add(`${to} ${name}`);
    }
  return [...given]
    .sort(([, one], [, other]) => other.size - one.size)
    .map(([folder, names]) => `${folder} ${names.size}`);
}

const arrows = [...imports]
  .filter(([from]) => from.startsWith(RULES))
  .flatMap(([, all]) => all)
  .filter(({ to }) => to.startsWith(RULES));
const countOf = (word: RegExp) =>
  sources.reduce((sum, file) => sum + [...textOf(file).matchAll(word)].length, 0);

const table = [
  '| figure | value |',
  '|---|---|',
  `| lines of \`src\` | ${size(sources)} |`,
  `| what \`rehearsal/rehearse.ts\` reaches by imports, later ones too | ${size([...closureOf(TRUNK)])} |`,
  `| names that a folder gives to others | ${namesGiven().join(', ')} |`,
  `| imports of a rule by a rule (\`hazards/kinds\`) | ${arrows.length} |`,
  `| \`Pick\` and \`Omit\` | ${countOf(/\bPick</g)} and ${countOf(/\bOmit</g)} |`,
  `| lines of \`test\` | ${size(tests)} |`,
].join('\n');

console.log(table);
if (process.argv.includes('--write'))
  writeFileSync(README, withBlock(readFileSync(README, 'utf8'), 'size', table));
