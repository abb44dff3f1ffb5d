import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { generatedDocs } from '../../helpers/generated-docs.ts';
import { HAZARDS_FOLDER } from '../../helpers/hazard-pages.ts';
import { PROJECTS } from '../../helpers/projects.ts';
import { undescribedPaths } from '../../helpers/report-page.ts';
import { TOOL_COMMANDS } from '../../helpers/tools.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
const pagesIn = (folder: string) => readdirSync(path.join(root, folder)).map((name) => `${folder}/${name}`);
const DECISIONS = pagesIn('docs/decisions');
const PAGES = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', ...pagesIn('docs')].filter((file) =>
  file.endsWith('.md'),
);
const GENERATED = generatedDocs();

test.each([...GENERATED])('%s has what the code says today; else: npm run docs', (file, text) => {
  expect(read(file)).toBe(text);
});

test.each(['report', 'upgradeReport', 'profileShape'])('each path of %s has a description', (name) => {
  expect(undescribedPaths(name)).toEqual([]);
});

test('there is a page of each hazard, and of no other', () => {
  const pages = readdirSync(path.join(root, HAZARDS_FOLDER)).map((name) => `${HAZARDS_FOLDER}/${name}`);
  expect(pages.filter((page) => !GENERATED.has(page))).toEqual([]);
});

test('the page for newcomers has the commands that the tests of projects run', () => {
  const commands = [...PROJECTS.map(({ command }) => command.join(' ')), ...TOOL_COMMANDS];
  expect(commands.length).toBeGreaterThan(8);
  const page = read('docs/getting-started.md');
  expect(commands.filter((command) => !page.includes(` -- ${command}\``))).toEqual([]);
});

test('the README has 8 to 12 kB', () => {
  const bytes = Buffer.byteLength(read('README.md'));
  expect(bytes).toBeGreaterThan(8_000);
  expect(bytes).toBeLessThan(12_000);
});

test('the README leads to every page of docs', () => {
  const linked = new Set(linksOf('README.md').map(({ file }) => file));
  expect(PAGES.filter((file) => file !== 'README.md' && !linked.has(file))).toEqual([]);
});

test('the index of docs leads to every page, and that of the decisions to each, which has at most 30 lines', () => {
  const indexed = new Set(
    [...linksOf('docs/README.md'), ...linksOf('docs/decisions/README.md')].map(({ file }) => file),
  );
  const pages = [...PAGES.filter((file) => file.startsWith('docs/')), ...DECISIONS];
  expect(pages.filter((file) => file !== 'docs/README.md' && !indexed.has(file))).toEqual([]);
  expect(DECISIONS.filter((file) => read(file).split('\n').length > 31)).toEqual([]);
});

describe.each(
  [...PAGES, ...DECISIONS, ...GENERATED.keys()].filter((page, index, all) => all.indexOf(page) === index),
)('the links of %s', (page) => {
  test('lead to files and headings that are there', () => {
    const broken = linksOf(page).filter(
      ({ file, anchor }) =>
        !existsSync(path.join(root, file)) || (anchor !== undefined && !anchorsOf(file).includes(anchor)),
    );
    expect(broken).toEqual([]);
  });
});

interface Link {
  /** From the top of the project. */
  readonly file: string;
  readonly anchor: string | undefined;
}

/** Returns the links of a page to files of the project. */
function linksOf(page: string): Link[] {
  return [...read(page).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)/g)].map(
    ([, target, anchor]) => ({
      file: target ? path.join(path.dirname(page), target) : page,
      anchor,
    }),
  );
}

/** Returns the anchors of a page's headings, as code hosts make them. */
function anchorsOf(file: string): string[] {
  return [...read(file).matchAll(/^#+ (.*)$/gm)].map(([, title]) =>
    (title ?? '')
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .trim()
      .replaceAll(' ', '-'),
  );
}
