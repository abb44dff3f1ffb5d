import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { callsIn, inlineCallsOf, mistakeIn, shellBlocksOf } from '../../helpers/documented-commands.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
const PAGES = ['README.md', ...readdirSync(path.join(root, 'docs')).map((name) => `docs/${name}`)].filter(
  (file) => file.endsWith('.md'),
);

test('finds calls in shell, and mistakes in them', () => {
  const shell = `
    npx safemigrate --clone dump \\
      --report r.md -- npx knex migrate:latest   # a comment -- with dashes
    if safemigrate doctor | grep -q dump; then DATABASE_URL=x safemigrate --allow 'CODE: a reason' -- true; fi
    npm install ../safemigrate/safemigrate-0.2.0.tgz`;
  expect(callsIn(shell)).toEqual([
    ['--clone', 'dump', '--report', 'r.md', '--', 'npx', 'knex', 'migrate:latest'],
    ['doctor'],
    ['--allow', 'CODE: a reason', '--', 'true'],
  ]);
  expect(mistakeIn(['--clone', 'dump', '--', 'true'])).toBeUndefined();
  expect(mistakeIn(['--clonee', 'dump', '--', 'true'])).toContain('--clonee');
  expect(mistakeIn(['--max-duration', 'soon', '--', 'true'])).toContain('soon');
  expect(mistakeIn(['--lock-timeout', '2s', '--', 'true'])).toContain('no effect');
  expect(mistakeIn(['list', '--report', 'r.md'])).toContain('--report');
});

test.each(PAGES)('every call of safemigrate in %s parses', (page) => {
  const calls = [...callsIn(shellBlocksOf(read(page))), ...inlineCallsOf(read(page))];
  const wrong = calls
    .map((argv) => [argv.join(' '), mistakeIn(argv)])
    .filter(([, mistake]) => mistake !== undefined);
  expect(wrong).toEqual([]);
});

test('the pages have calls that can be read', () => {
  expect(PAGES.flatMap((page) => callsIn(shellBlocksOf(read(page)))).length).toBeGreaterThan(30);
});
