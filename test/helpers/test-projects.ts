import type { TestProjectInlineConfiguration } from 'vitest/config';
import { LongestFirst } from './longest-first.ts';
import { withServers } from './vitest-project.ts';

/** What the runs of tests have in common. */
export const RUN = {
  // Many wait for servers and for time to pass: on two processors a third one uses what they leave.
  maxWorkers: 3,
  reporters: ['default', './test/helpers/retried.ts'],
  sequence: { sequencer: LongestFirst },
};

/**
 * What `npm test` runs beside `unit`, on PostgreSQL 18 only, which `npm ci` brings: the main paths of the built CLI. Nothing here
 * may need a program that a minimal Debian lacks, psql among them; the first step of `.ci/run` has no others in its PATH.
 */
export const MAIN_PATHS = [
  'e2e/main-paths',
  'e2e/demo',
  'e2e/init',
  'e2e/apply-receipts',
  'e2e/history',
  'e2e/policy',
  'e2e/refusals',
  'e2e/upkeep',
].map((name) => `test/${name}.test.ts`);

/** The same, which `npm run test:all` runs on further versions. */
const ON_MORE_VERSIONS = ['postgres/hazards/hazards'].map((name) => `test/${name}.test.ts`);

/** Folders whose tests do not belong to the one run of everything: they have a configuration of their own, or none. */
const APART = ['unit', 'oracle', 'traffic', 'zfs', 'executable', 'soak', 'bench'].map(
  (folder) => `test/${folder}/**`,
);

/** Pure functions need no process and no modules of their own for each file, which cost more than the tests do. */
export const UNIT: TestProjectInlineConfiguration = {
  test: { name: 'unit', include: ['test/unit/**/*.test.ts'], isolate: false, testTimeout: 60_000 },
};

export const MAIN = withServers('main', [...MAIN_PATHS, ...ON_MORE_VERSIONS], {
  env: { SAFEMIGRATE_TEST_VERSIONS: '18' },
});

/** All tests with servers but those of `left`. The last three come after the others, with fewer workers. */
export function allWithServers(left: readonly string[] = []): TestProjectInlineConfiguration[] {
  return [
    withServers('servers', ['test/**/*.test.ts'], { exclude: [...APART, ...left] }),
    // What waits for clients that work is measured there.
    withServers('traffic', ['test/traffic/**/*.test.ts'], {
      maxWorkers: 2,
      sequence: { groupOrder: 1 },
    }),
    // Times are compared there, which other work would change.
    withServers('oracle', ['test/oracle/**/*.test.ts'], { maxWorkers: 1, sequence: { groupOrder: 3 } }),
    withServers('zfs', ['test/zfs/**/*.test.ts'], { maxWorkers: 1, sequence: { groupOrder: 2 } }),
  ];
}
