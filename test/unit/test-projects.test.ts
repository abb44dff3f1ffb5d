import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { MAIN, MAIN_PATHS } from '../helpers/test-projects.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const files = MAIN.test?.include ?? [];

test('npm test names files that are there, all that CI does not run again among them', () => {
  expect(files.filter((file) => !existsSync(`${root}${file}`))).toEqual([]);
  expect(files).toEqual(expect.arrayContaining(MAIN_PATHS));
});

test('no file of npm test asks for a program that the machine may lack', () => {
  const asking = /skipReason|skipIf|psqlCommand|withoutClientPrograms|inTerminal|runLine|ownServer\((?!18)/;
  expect(files.filter((file) => asking.test(readFileSync(`${root}${file}`, 'utf8')))).toEqual([]);
});

test('a file that CI does not run again after npm test is one of PostgreSQL 18 alone', () => {
  const others = /VERSIONS|OLDEST_AND_NEWEST|useOwnServers\((?!18\))/;
  expect(MAIN_PATHS.filter((file) => others.test(readFileSync(`${root}${file}`, 'utf8')))).toEqual([]);
});
