import { defineConfig } from 'vitest/config';
import { withServers } from './helpers/vitest-project.ts';

const { SAFEMIGRATE_TEST_SEED = 'random', SAFEMIGRATE_TEST_CASES = '40' } = process.env;

/** Tests that look for rare failures by repeating themselves, and those with long tables, of which other runs take a part: `npm run soak`. */
export default defineConfig({
  test: {
    maxWorkers: 1,
    projects: [
      withServers(
        'soak',
        [
          'test/soak/**/*.test.ts',
          'test/services/*.test.ts',
          'test/docs/{ci-recipe,docs-commands}.test.ts',
          'test/isolation/{configurations,escapes}.test.ts',
          'test/{faults/online-swap,tools/safer-form}.test.ts',
          'test/{faults/upgrade,tools/upgrade-layouts}.test.ts',
        ],
        {
          testTimeout: 30 * 60_000,
          env: { SAFEMIGRATE_TEST_SEED, SAFEMIGRATE_TEST_CASES, SAFEMIGRATE_TEST_SHARE: 'all' },
        },
      ),
    ],
  },
});
