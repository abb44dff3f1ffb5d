import { defineConfig } from 'vitest/config';
import { withServers } from './helpers/vitest-project.ts';

/** What --propose and --script write, run and proved: `npm run test:safer-forms`. */
export default defineConfig({
  test: {
    maxWorkers: 3,
    reporters: ['default', './test/helpers/retried.ts'],
    projects: [withServers('safer-forms', ['test/safer-forms/**/*.test.ts'])],
  },
});
