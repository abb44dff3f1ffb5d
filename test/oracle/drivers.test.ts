import { expect, test } from 'vitest';
import { wrongNumbersOf } from '../helpers/outside/measured-run.ts';
import { MEASURED_DRIVERS } from '../helpers/outside/modes.ts';
import { SHORT } from '../helpers/outside/steps.ts';
import { OLDEST_AND_NEWEST } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';

/** Some runs, on a machine that has other work. */
const TIMEOUT_MS = 10 * 60_000;

const drivers =
  process.env.ORACLE_DRIVERS === undefined
    ? inThisShare(MEASURED_DRIVERS, ({ language }) => language)
    : MEASURED_DRIVERS;

test.each(OLDEST_AND_NEWEST)(
  'drivers and their protocols on %s: what the report says is what the server says',
  async (version) => {
    expect(await wrongNumbersOf(version, drivers, SHORT)).toEqual([]);
  },
  TIMEOUT_MS,
);
