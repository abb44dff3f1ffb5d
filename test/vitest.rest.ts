import { defineConfig } from 'vitest/config';
import { allWithServers, MAIN_PATHS, RUN } from './helpers/test-projects.ts';

/** What `npm test` leaves out, for `.ci/run`, which has run that before. */
export default defineConfig({ test: { ...RUN, projects: allWithServers(MAIN_PATHS) } });
