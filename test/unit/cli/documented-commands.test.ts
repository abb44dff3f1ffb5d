import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { flagsIn } from '../../../src/cli/options/flags.ts';
import { RUN_SETTINGS } from '../../../src/cli/options/run-table.ts';
import { subcommands } from '../../../src/cli/options/subcommand-table.ts';
import {
  callsIn,
  codeBlocksOf,
  indentedCodeOf,
  inlineCallsOf,
  inlineOptionsOf,
  mistakeIn,
  shellOf,
} from '../../helpers/documented-commands.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
const PAGES = ['README.md', ...readdirSync(path.join(root, 'docs')).map((name) => `docs/${name}`)].filter(
  (file) => file.endsWith('.md'),
);

test('finds calls in shell, and mistakes in them', () => {
  const shell = `
    npx safemigrate --clone dump \\
      --report r.md -- npx knex migrate:latest   # a comment -- with dashes
    if safemigrate doctor | grep -q dump; then DATABASE_URL=x safemigrate --accept 'CODE: a reason' -- true; fi
    npm install ../safemigrate/safemigrate-0.2.0.tgz`;
  expect(callsIn(shell)).toEqual([
    ['--clone', 'dump', '--report', 'r.md', '--', 'npx', 'knex', 'migrate:latest'],
    ['doctor'],
    ['--accept', 'CODE: a reason', '--', 'true'],
  ]);
  expect(mistakeIn(['--clone', 'dump', '--', 'true'])).toBeUndefined();
  expect(mistakeIn(['--clonee', 'dump', '--', 'true'])).toContain('--clonee');
  expect(mistakeIn(['--limit', 'duration=soon', '--', 'true'])).toContain('soon');
  expect(mistakeIn(['--lock-timeout', '2s', '--', 'true'])).toContain('--lock-timeout');
  expect(mistakeIn(['apply', '--lock-timeout', '2s', '--', 'true'])).toBeUndefined();
  expect(mistakeIn(['list', '--report', 'r.md'])).toContain('--report');
});

test.each(PAGES)('every call of safemigrate in %s parses', (page) => {
  const calls = [...callsIn(shellOf(read(page))), ...inlineCallsOf(read(page))];
  const wrong = calls
    .map((argv) => [argv.join(' '), mistakeIn(argv)])
    .filter(([, mistake]) => mistake !== undefined);
  expect(wrong).toEqual([]);
});

test('the pages have calls that can be read', () => {
  expect(PAGES.flatMap((page) => callsIn(shellOf(read(page)))).length).toBeGreaterThan(30);
});

/** What blocks of code are made of; docs-commands.test.ts in test/docs says what becomes of each. */
const LANGUAGES = new Set(['sh', 'sql', 'js', 'json', 'yaml', 'text']);

test.each(PAGES)('every block of code in %s says what it is made of', (page) => {
  const blocks = codeBlocksOf(read(page));
  expect(blocks.filter(({ language }) => !LANGUAGES.has(language))).toEqual([]);
  expect(indentedCodeOf(read(page))).toEqual([]);
  for (const { text } of blocks.filter(({ language }) => language === 'json')) JSON.parse(text);
});

/** Options that pages name, but that belong to other programs: Liquibase, vacuumdb. */
const OTHERS = [
  ...['--username', '--analyze-in-stages', '--pythonpath', '--settings'],
  ...['--knexfile', '--config', '--overload', '--table'],
];

test.each(PAGES)('every option that the prose of %s names exists', (page) => {
  const tables = [RUN_SETTINGS, ...subcommands().map(([, { options }]) => options)];
  const own = tables.flatMap((table) => flagsIn(table).map(({ name }) => name));
  const known = new Set([...own, ...OTHERS, '--help', '--version']);
  const named = inlineOptionsOf(read(page)).map((option) => option.replace(/^--no-/, '--'));
  expect(named.filter((option) => !known.has(option))).toEqual([]);
});

test('the command line’s page names every subcommand', () => {
  const [synopsis] = codeBlocksOf(read('docs/cli.md'));
  const named = new Set(synopsis?.text.match(/(?<=safemigrate |\| )[\w-]+/g));
  expect(subcommands().filter(([name]) => !named.has(name))).toEqual([]);
});

test.each(PAGES)('the workflows in %s give the action inputs that it has, and options that exist', (page) => {
  const inputs = new Set(Object.keys(parse(read('action.yml')).inputs));
  for (const { language, text } of codeBlocksOf(read(page))) {
    if (language !== 'yaml') continue;
    for (const { uses = '', with: given = { command: '' }, run } of stepsIn(parse(text))) {
      // Neither expansions nor names of files are calls.
      const calls = callsIn(
        (run ?? '').replaceAll(/\$\(.*?\) \\\n\s*/g, '').replaceAll(/\S*safemigrate\.\w+/g, 'file.md'),
      );
      expect(calls.map(mistakeIn)).toEqual(calls.map(() => undefined));
      if (!uses.includes('/safemigrate@')) continue;
      expect(Object.keys(given).filter((input) => !inputs.has(input))).toEqual([]);
      const words = [given.options ?? '', given.from ? `--dump ${given.from}` : ''].join(' ');
      expect(
        mistakeIn([...words.split(' ').filter(Boolean), '--', 'sh', '-c', given.command]),
      ).toBeUndefined();
    }
  }
});

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: { readonly command: string; readonly options?: string; readonly from?: string };
}

/** The steps of a workflow, of a job, or of a part of one. */
function stepsIn(yaml: unknown): Step[] {
  if (Array.isArray(yaml)) return yaml;
  if (typeof yaml !== 'object' || yaml === null) return [];
  const { steps, jobs } = yaml as { steps?: Step[]; jobs?: Record<string, unknown> };
  return [...(steps ?? []), ...Object.values(jobs ?? {}).flatMap(stepsIn)];
}
