import { fileURLToPath } from 'node:url';
import type { TestProjectInlineConfiguration } from 'vitest/config';
import type { ProjectConfig } from 'vitest/node';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** A group of test files that is given real servers, and looked over for what it leaves behind. */
export function withServers(
  name: string,
  include: string[],
  more: ProjectConfig = {},
): TestProjectInlineConfiguration {
  return {
    root,
    test: {
      name,
      include,
      pool: 'forks',
      // Many times what each takes alone: the machine may have other work.
      testTimeout: 120_000,
      hookTimeout: 120_000,
      expect: { poll: { timeout: 60_000, interval: 20 } },
      // Thousands of races with real processes: there one that is lost is named (retried.ts), a second one fails.
      retry: process.env.CI ? 1 : 0,
      globalSetup: [`${root}test/helpers/global-setup.ts`],
      setupFiles: [`${root}test/helpers/leftovers.ts`],
      ...more,
    },
  };
}
