import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import packageFacts from '../package.json' with { type: 'json' };
import { withServers } from './helpers/vitest-project.ts';

const name = `safemigrate-${packageFacts.version}-${process.platform}-${process.arch}`;
process.env.SAFEMIGRATE_BIN ??= fileURLToPath(new URL(`../release/${name}`, import.meta.url));

/** Tests of the built CLI, run with the single executable in its place: `npm run test:executable`. */
export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      withServers('executable', [
        'test/executable/**/*.test.ts',
        'test/e2e/cluster.test.ts',
        'test/faults/private-clone.test.ts',
      ]),
    ],
  },
});
