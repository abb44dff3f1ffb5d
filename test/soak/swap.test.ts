import { expect, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import { ownServer } from '../helpers/own-server.ts';
import { chosenVersion } from '../helpers/servers.ts';
import { runTrials } from '../helpers/swap-trials.ts';

/** `SWAP_VERSION` names the PostgreSQL, `SWAP_SEED` repeats a run; `SWAP_TRIALS` and `SWAP_STOP_MS` (for how long one is stopped) shorten it. */
const version = chosenVersion('SWAP_VERSION');
const seed = Number(process.env.SWAP_SEED ?? Date.now() % 1_000_000);
const trials = Number(process.env.SWAP_TRIALS ?? 200);
const stopMs = Number(process.env.SWAP_STOP_MS ?? 30_000);

test(`PostgreSQL ${version}: ${trials} swaps and rollbacks under load, disturbed at random, lose no acknowledged row (seed ${seed})`, async () => {
  console.log(`SWAP_SEED=${seed} SWAP_TRIALS=${trials} SWAP_STOP_MS=${stopMs}`);
  const server = await ownServer(version);
  try {
    const figures = await runTrials(server, { seed, trials, stopMs, tell: console.log });
    const { outcomes, reopenedByGuardMs, ...counts } = figures;
    const row = { ...counts, ...outcomes, 'reopened by the guard': reopenedByGuardMs.length };
    recordFigures(
      `swaps and rollbacks under load, disturbed at random, PostgreSQL ${version}`,
      [row],
      [`SWAP_SEED=${seed} SWAP_TRIALS=${trials} SWAP_STOP_MS=${stopMs}`],
    );
    expect(figures.trials).toBe(trials);
  } finally {
    await server.stop();
  }
});
