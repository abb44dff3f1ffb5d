import { readdirSync, readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';
import { withServers } from './helpers/vitest-project.ts';

const { SAFEMIGRATE_TEST_SEED = 'random', SAFEMIGRATE_TEST_CASES = '40' } = process.env;

/** Files of which other runs take a share. */
const WITH_SHARES = readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.test.ts') && !file.startsWith('unit/'))
  .filter((file) => readFileSync(`${import.meta.dirname}/${file}`, 'utf8').includes('/helpers/share.ts'))
  .map((file) => `test/${file}`);

/** Tests that look for rare failures by repeating themselves, and those with long tables, of which other runs take a part: `npm run soak`. */
export default defineConfig({
  test: {
    maxWorkers: 1,
    projects: [
      withServers('soak', ['test/soak/**/*.test.ts', 'test/services/*.test.ts', ...WITH_SHARES], {
        testTimeout: 30 * 60_000,
        env: { SAFEMIGRATE_TEST_SEED, SAFEMIGRATE_TEST_CASES, SAFEMIGRATE_TEST_SHARE: 'all' },
      }),
    ],
  },
});
