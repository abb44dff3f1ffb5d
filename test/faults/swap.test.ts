import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { until } from '../helpers/cutting.ts';
import { ownServer } from '../helpers/own-server.ts';
import {
  DISTURBANCES,
  makeTrialTarget,
  runTrials,
  settle,
  startTrialLoad,
  withTool,
} from '../helpers/swap-trials.ts';
import { guardOf } from '../helpers/swapping.ts';

let server: Server;
beforeEach(async () => {
  server = await ownServer(18);
});
afterEach(() => server.stop());

test('swaps and rollbacks that are killed, stopped and crashed under load lose no acknowledged row, and leave the target open', {
  timeout: 300_000,
}, async () => {
  const disturbances = DISTURBANCES.filter((each) => each !== 'none');
  // `soak/swap.test.ts` has hundreds.
  const { acknowledged } = await runTrials(server, { seed: 7, trials: disturbances.length, disturbances });
  expect(acknowledged).toBeGreaterThan(50);
});

test('a swap whose reopen agent alone is killed is refused if the agent was not ready, and else goes on to its end', {
  timeout: 60_000,
}, async () => {
  const target = await makeTrialTarget(server);
  const load = startTrialLoad(target);
  const exitCode = await withTool(
    { url: target.url, back: false, env: { SAFEMIGRATE_CLONE: 'template' } },
    async ({ pid }) => {
      let agent: number | undefined;
      await until('the agent is there', async () => {
        agent = await guardOf(pid ?? 0).catch(() => undefined);
        return agent !== undefined;
      });
      process.kill(agent ?? Number.NaN, 'SIGKILL');
    },
  );
  const done = await settle(target, load, false);
  expect([
    { exitCode: 0, done: true },
    { exitCode: 4, done: false },
  ]).toContainEqual({ exitCode, done });
});
