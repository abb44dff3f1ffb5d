import { defineConfig } from 'vitest/config';
import { withServers } from './helpers/vitest-project.ts';

/** The commands that the pages show, run: `npm run test:docs`. */
export default defineConfig({
  test: {
    maxWorkers: 2,
    reporters: ['default', './test/helpers/retried.ts'],
    projects: [withServers('docs', ['test/docs/**/*.test.ts'])],
  },
});
