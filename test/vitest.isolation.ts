import { defineConfig } from 'vitest/config';
import { withServers } from './helpers/vitest-project.ts';

/** Commands that try to reach production from a rehearsal: `npm run test:isolation`. */
export default defineConfig({
  test: {
    maxWorkers: 3,
    reporters: ['default', './test/helpers/retried.ts'],
    projects: [withServers('isolation', ['test/isolation/**/*.test.ts'])],
  },
});
