import { defineConfig } from 'vitest/config';
import { withServers } from './helpers/vitest-project.ts';

/** Killing, cutting, filling up: `npm run test:faults`. They take as long as a fifth of all others. */
export default defineConfig({
  test: {
    maxWorkers: 3,
    reporters: ['default', './test/helpers/retried.ts'],
    projects: [withServers('faults', ['test/faults/**/*.test.ts'])],
  },
});
