import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { ownServer } from '../helpers/own-server.ts';
import { DISTURBANCES, runTrials } from '../helpers/swap-trials.ts';

let server: Server;
beforeAll(async () => {
  server = await ownServer(18);
});
afterAll(() => server.stop());

test('swaps and rollbacks that are killed, stopped and crashed under load lose no acknowledged row, and leave the target open', {
  timeout: 300_000,
}, async () => {
  const disturbances = DISTURBANCES.filter((each) => each !== 'none');
  const { trials, acknowledged } = await runTrials(server, { seed: 7, trials: 10, disturbances });
  expect(trials).toBe(10);
  expect(acknowledged).toBeGreaterThan(100);
});
