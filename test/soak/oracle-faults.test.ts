import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { disagreements, lastingDisagreements } from '../helpers/outside/disagreements.ts';
import { measure } from '../helpers/outside/measured-run.ts';
import { MEASURED_DRIVERS } from '../helpers/outside/modes.ts';
import { measureNumbers } from '../helpers/outside/numbers-run.ts';
import { type PlantedBuild, plantedBuild } from '../helpers/outside/planted-build.ts';
import { PLANTED_FAULTS } from '../helpers/outside/planted-faults.ts';
import { SHORT } from '../helpers/outside/steps.ts';

/** Enough for every fault: psycopg alone prepares a statement by itself and then executes it several times. */
const DRIVERS = MEASURED_DRIVERS.filter(({ name }) => ['pgbench', 'node-pg', 'psycopg'].includes(name));

describe('a fault in a number that is put into the program', () => {
  let build: PlantedBuild;

  beforeAll(async () => {
    build = await plantedBuild();
  });

  afterAll(() => build.remove());

  const wrongNumbers = (run: 'drivers' | 'numbers', program?: readonly string[]) =>
    run === 'numbers'
      ? measureNumbers(18, program)
      : measure(18, { drivers: DRIVERS, cost: SHORT, atOnce: 2, ...(program && { program }) }, disagreements);

  test.each(['drivers', 'numbers'] as const)('is not there at first: %s', async (run) => {
    expect(await lastingDisagreements(() => wrongNumbers(run))).toEqual([]);
  });

  test.each(PLANTED_FAULTS)('$fault: the oracle fails', async (fault) => {
    const program = await build.plant(fault);
    const numbers = (await wrongNumbers(fault.run, program)).map(({ number }) => number);
    expect(numbers.filter((number) => fault.shows.test(number)).length, numbers.join('\n')).toBeGreaterThan(
      0,
    );
  });
});
