import { readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { LANES, laneOf, testsFor } from '../helpers/lanes.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const filesOf = (folder: string) =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }).map(
    (file) => `${folder}/${file.replaceAll(path.sep, '/')}`,
  );
const sources = filesOf('src').filter((file) => /\.(ts|sh|py|pl)$/.test(file));
const tests = filesOf('test').filter((file) => file.endsWith('.test.ts'));

test('each file of src is in a row, so that test:changed runs what it can break', () => {
  expect(sources.filter((file) => laneOf(file) === undefined)).toEqual([]);
});

test('each row is one of files that are there, and names tests that are there', () => {
  const used = new Set(sources.map(laneOf));
  expect(Object.keys(LANES).filter((row) => !used.has(row))).toEqual([]);
  const named = [...new Set(Object.values(LANES).flat())];
  expect(named.filter((place) => !tests.some((file) => file.startsWith(`test/${place}`)))).toEqual([]);
});

test('a change runs the tests of the nearest row, and a test that changed itself', () => {
  expect(testsFor(['src/clone/services/neon.ts', 'docs/load.md'])).toEqual(['test/unit/', 'test/services/']);
  expect(testsFor(['test/e2e/plan.test.ts', 'test/unit/lanes.test.ts'])).toEqual([
    'test/unit/',
    'test/e2e/plan.test.ts',
  ]);
});
