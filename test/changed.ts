// npm run test:changed [-- COMMIT]: runs the tests that the changes since this commit can break, committed or not, by test/lanes.json.
// Without a commit: since this branch left `main`.
import { execFileSync, spawnSync } from 'node:child_process';
import { testsFor } from './helpers/lanes.ts';

const git = (...words: string[]) => execFileSync('git', words, { encoding: 'utf8' }).trim();
const lines = (text: string) => text.split('\n').filter((line) => line !== '');

const base = process.argv[2] ?? git('merge-base', 'HEAD', 'main');
const changed = [
  ...lines(git('diff', '--name-only', base)),
  ...lines(git('ls-files', '--others', '--exclude-standard')),
];
const tests = testsFor(changed);
console.log(`${changed.length} files changed since ${base.slice(0, 10)}: ${tests.join(' ')}`);
if (changed.some((file) => /^test\/helpers\/|^fixtures\/|^[^/]+\.(json|mjs|ts)$/.test(file)))
  console.log('Helpers, fixtures or the build changed, which any test may use: npm run test:all');
process.exitCode = spawnSync('npx', ['vitest', 'run', ...tests], { stdio: 'inherit' }).status ?? 1;
