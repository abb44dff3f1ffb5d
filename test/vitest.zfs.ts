import { defineConfig } from 'vitest/config';
import { withServers } from './helpers/vitest-project.ts';

/** On a real ZFS, in user space: `npm run test:zfs`. */
export default defineConfig({
  test: {
    maxWorkers: 1,
    reporters: ['default', './test/helpers/retried.ts'],
    projects: [withServers('zfs', ['test/zfs/**/*.test.ts'])],
  },
});
