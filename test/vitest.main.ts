import { defineConfig } from 'vitest/config';
import { MAIN, RUN, UNIT } from './helpers/test-projects.ts';

/** `npm test`: what a machine with Node.js and git can run in a few minutes. */
export default defineConfig({
  test: { ...RUN, reporters: [...RUN.reporters, './test/helpers/left-out.ts'], projects: [UNIT, MAIN] },
});
