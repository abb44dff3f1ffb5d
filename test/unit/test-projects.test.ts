import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { MAIN, MAIN_PATHS } from '../helpers/test-projects.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const files = MAIN.test?.include ?? [];
const units = readdirSync(`${root}test/unit`, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.test.ts') && !file.endsWith('test-projects.test.ts'))
  .map((file) => `test/unit/${file}`);
const filesWith = (word: RegExp, among: readonly string[]) =>
  among.filter((file) => word.test(readFileSync(`${root}${file}`, 'utf8')));

test('npm test names files that are there, all that CI does not run again among them', () => {
  expect(files.filter((file) => !existsSync(`${root}${file}`))).toEqual([]);
  expect(files).toEqual(expect.arrayContaining(MAIN_PATHS));
});

test('no file of npm test asks for a program that the machine may lack', () => {
  const asking =
    /skipReason|skipIf|runIf|psqlCommand|withoutClientPrograms|inTerminal|runLine|ownServer\((?!18)/;
  expect(filesWith(asking, [...files, ...units])).toEqual([]);
});

test('a file that CI does not run again after npm test is one of PostgreSQL 18 alone', () => {
  const others = /VERSIONS|OLDEST_AND_NEWEST|useOwnServers\((?!18\))/;
  expect(filesWith(others, MAIN_PATHS)).toEqual([]);
});
