import { defineConfig } from 'vitest/config';
import { withServers } from './test/helpers/vitest-project.ts';

export default defineConfig({
  test: {
    maxWorkers: 2,
    reporters: ['default', './test/helpers/retried.ts'],
    projects: [
      // Pure functions need no process and no modules of their own for each file, which cost more than the tests do.
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], isolate: false } },
      withServers('servers', ['test/{postgres,e2e,faults}/**/*.test.ts']),
    ],
  },
});
