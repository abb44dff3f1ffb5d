import { describe, expect, test } from 'vitest';
import { wrongNumbersOf } from '../helpers/outside/measured-run.ts';
import { MEASURED_DRIVERS, MEASURED_RUST_DRIVERS } from '../helpers/outside/modes.ts';
import { LONG } from '../helpers/outside/steps.ts';
import { OLDEST_AND_NEWEST } from '../helpers/servers.ts';

// A driver at a time: each mode has a table of its own that is rewritten.
describe.each(OLDEST_AND_NEWEST)('pg_sleep(1) and a rewrite of seconds on %s', (version) => {
  test.each([...MEASURED_DRIVERS, ...MEASURED_RUST_DRIVERS])(
    '$name: what the report says is what the server says',
    async (driver) => {
      expect(await wrongNumbersOf(version, [driver], LONG)).toEqual([]);
    },
  );
});
