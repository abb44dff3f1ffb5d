import { expect, test } from 'vitest';
import { lastingDisagreements } from '../helpers/outside/disagreements.ts';
import { measureNumbers } from '../helpers/outside/numbers-run.ts';
import { OLDEST_AND_NEWEST } from '../helpers/servers.ts';

/** Three runs, on a machine that has other work. */
const TIMEOUT_MS = 10 * 60_000;

test.each(OLDEST_AND_NEWEST)(
  'every number of a report on %s is what others measure',
  async (version) => {
    expect(await lastingDisagreements(() => measureNumbers(version))).toEqual([]);
  },
  TIMEOUT_MS,
);
