import { defineConfig } from 'vitest/config';
import { withServers } from './helpers/vitest-project.ts';

/** Benchmarks are run like tests, one after the other; they print ratios and assert nothing about time. */
export default defineConfig({
  test: {
    projects: [
      withServers('bench', ['test/bench/**/*.bench.ts'], { fileParallelism: false, testTimeout: 600_000 }),
    ],
    disableConsoleIntercept: true,
  },
});
