import { defineConfig } from 'vitest/config';
import { withServers } from './helpers/vitest-project.ts';

/** The built CLI beside others who work on the server, for seconds each: `npm run test:traffic`. */
export default defineConfig({
  test: {
    maxWorkers: 2,
    reporters: ['default', './test/helpers/retried.ts'],
    projects: [withServers('traffic', ['test/traffic/**/*.test.ts'])],
  },
});
