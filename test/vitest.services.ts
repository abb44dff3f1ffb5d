import { defineConfig } from 'vitest/config';
import { withServers } from './helpers/vitest-project.ts';

/** Clones by hosted services, against fakes of them: `npm run test:services`. */
export default defineConfig({
  test: {
    maxWorkers: 2,
    reporters: ['default', './test/helpers/retried.ts'],
    projects: [withServers('services', ['test/services/**/*.test.ts'])],
  },
});
