import { defineConfig } from 'vitest/config';
import { withServers } from './test/helpers/vitest-project.ts';

export default defineConfig({
  test: {
    maxWorkers: 2,
    reporters: ['default', './test/helpers/retried.ts'],
    projects: [
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'] } },
      withServers('servers', ['test/{postgres,e2e,faults}/**/*.test.ts']),
    ],
  },
});
