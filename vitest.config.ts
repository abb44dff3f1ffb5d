import { defineConfig } from 'vitest/config';
import { withServers } from './test/helpers/vitest-project.ts';

export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], benchmark: { include: [] } } },
      withServers('servers', ['test/{postgres,e2e,faults}/**/*.test.ts'], {
        benchmark: { include: ['test/bench/**/*.bench.ts'] },
      }),
    ],
  },
});
