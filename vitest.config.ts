import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/helpers/longest-first.ts';
import { withServers } from './test/helpers/vitest-project.ts';

export default defineConfig({
  test: {
    // Many wait for servers and for time to pass: on two processors a third one uses what they leave.
    maxWorkers: 3,
    reporters: ['default', './test/helpers/retried.ts'],
    sequence: { sequencer: LongestFirst },
    projects: [
      // Pure functions need no process and no modules of their own for each file, which cost more than the tests do.
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], isolate: false, testTimeout: 60_000 } },
      withServers('servers', ['test/{postgres,e2e}/**/*.test.ts']),
    ],
  },
});
