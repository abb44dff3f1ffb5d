import { defineConfig } from 'vitest/config';
import { allWithServers, RUN, UNIT } from './test/helpers/test-projects.ts';

/** Every test but those of the single executable, soak and benchmarks: `npm run test:all`, or `npx vitest run FILE` for one file. */
export default defineConfig({ test: { ...RUN, projects: [UNIT, ...allWithServers()] } });
