import { expect, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import { ownServer } from '../helpers/own-server.ts';
import { chosenVersion } from '../helpers/servers.ts';
import { runTrials } from '../helpers/swap-trials.ts';

const version = chosenVersion('SWAP_VERSION');
const seed = Number(process.env.SWAP_SEED ?? Date.now() % 1_000_000);
const trials = Number(process.env.SWAP_TRIALS ?? 100);

/** docs/threat-model.md promises it. The server looks every 500 ms for its client, and the agent as often for the lock. */
const CLOSED_AT_MOST_MS = 5_000;

test(`PostgreSQL ${version}: after ${trials} kill -9 of the tool alone during swaps and rollbacks the target is open again soon (seed ${seed})`, async () => {
  const server = await ownServer(version);
  try {
    const disturbances = ['kill alone'] as const;
    const { reopenedByGuardMs } = await runTrials(server, { seed, trials, disturbances, tell: console.log });
    const sorted = [...reopenedByGuardMs].sort((one, other) => one - other);
    const row = {
      kills: trials,
      'found closed': sorted.length,
      'median ms': Math.round(sorted[Math.floor(sorted.length / 2)] ?? 0),
      'longest ms': Math.round(sorted.at(-1) ?? 0),
    };
    recordFigures(
      `how long a target stays closed after kill -9 of the tool alone during a swap or a rollback, PostgreSQL ${version}`,
      [row],
      [`SWAP_SEED=${seed} SWAP_TRIALS=${trials}`],
    );
    expect(sorted.length).toBeGreaterThan(0);
    expect(sorted.at(-1)).toBeLessThan(CLOSED_AT_MOST_MS);
  } finally {
    await server.stop();
  }
});
