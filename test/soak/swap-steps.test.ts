import { expect, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import { ownServer } from '../helpers/own-server.ts';
import { chosenVersion } from '../helpers/servers.ts';
import { STEP_DISTURBANCES, walkSteps } from '../helpers/swap-steps.ts';

/**
 * `SWAP_STEPS` names disturbances, separated by commas, `SWAP_STRIDE` takes every so-manieth step, `SWAP_AT` those with
 * these words in their name (`COMMIT (1)`). `SWAP_STOP_MS` says for how long one is stopped, `SWAP_AT_ONCE` on how many servers
 * the steps are walked at the same time.
 */
const version = chosenVersion('SWAP_VERSION');
const named = process.env.SWAP_STEPS?.split(',') ?? STEP_DISTURBANCES;
const stride = Number(process.env.SWAP_STRIDE ?? 1);
const part = process.env.SWAP_AT ?? '';
const stopMs = Number(process.env.SWAP_STOP_MS ?? 30_000);
const atOnce = Number(process.env.SWAP_AT_ONCE ?? 1);

const wanted = (step: string, at: number) => at % stride === 0 && step.includes(part);

const walks = named.flatMap((name) => {
  const how = STEP_DISTURBANCES.find((each) => each === name);
  if (!how) throw new Error(`SWAP_STEPS: ${name} is none of ${STEP_DISTURBANCES.join(', ')}`);
  return [
    { how, back: false, what: 'swap' },
    { how, back: true, what: 'rollback' },
  ];
});

test.each(walks)(
  `PostgreSQL ${version}: $how at each step of a $what under load loses no acknowledged row`,
  {
    timeout: 6 * 3_600_000,
  },
  async ({ how, back, what }) => {
    const servers = await Promise.all(Array.from({ length: atOnce }, () => ownServer(version)));
    try {
      const figures = await walkSteps(servers, { how, back, wanted, stopMs, tell: console.log });
      recordFigures(`${how} at each step of a ${what} under load, PostgreSQL ${version}`, [{ ...figures }]);
      expect(figures.trials).toBeGreaterThan(0);
    } finally {
      await Promise.all(servers.map((server) => server.stop()));
    }
  },
);
