import { defineConfig } from 'vitest/config';
import { withServers } from './helpers/vitest-project.ts';

/** Tests of the whole against other people's tools: `npm run test:tools`. */
export default defineConfig({
  test: {
    maxWorkers: 2,
    passWithNoTests: true,
    projects: [withServers('tools', ['test/tools/**/*.test.ts'], { testTimeout: 120_000 })],
  },
});
