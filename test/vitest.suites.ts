import { defineConfig } from 'vitest/config';
import { LongestFirst } from './helpers/longest-first.ts';
import { withServers } from './helpers/vitest-project.ts';

/** Longer suites, a folder each (`npm run test:faults`): those named in one run share its servers and workers. */
export default defineConfig({
  test: {
    maxWorkers: 3,
    reporters: ['default', './test/helpers/retried.ts'],
    sequence: { sequencer: LongestFirst },
    projects: [
      withServers('suites', [
        'test/{docs,faults,isolation,oracle,safer-forms,services,swaps,tools,traffic,zfs}/**/*.test.ts',
      ]),
    ],
  },
});
