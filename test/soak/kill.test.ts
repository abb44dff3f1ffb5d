import { expect, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import {
  type Cut,
  databases,
  killAt,
  makeTargets,
  signalAt,
  undisturbed,
  withDatabase,
} from '../helpers/cutting.ts';
import { ownServer } from '../helpers/own-server.ts';
import { VERSIONS } from '../helpers/servers.ts';

/** `KILL_STRIDE` takes every nth place only. */
const stride = Number(process.env.KILL_STRIDE ?? 1);
const notes = stride === 1 ? [] : [`KILL_STRIDE=${stride}`];

test.each(VERSIONS)(
  'PostgreSQL %d: kill -9 at every request of a whole rehearsal leaves what clean finds, and nothing else',
  async (version) => {
    const server = await ownServer(version);
    try {
      const targets = await makeTargets(server, 7);
      const requests = await undisturbed(server, 'app 0');
      // With a stride each version is cut at other places.
      const cuts = requests
        .flatMap((_, at): Cut[] => [
          { at, how: 'before' },
          { at, how: 'after' },
        ])
        .filter(({ at }) => at % stride === version % stride);
      const figures = await killAt(server, targets, cuts);
      recordFigures(
        `kill -9 before and after each request of a rehearsal, PostgreSQL ${version}`,
        [{ requests: requests.length, ...figures }],
        notes,
      );
      expect(figures.runs).toBe(cuts.length);
    } finally {
      await server.stop();
    }
  },
);

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

test.each(SIGNALS)('%s at every request of a whole rehearsal leaves nothing', async (signal) => {
  const server = await ownServer(18);
  try {
    const targets = await makeTargets(server, 6);
    const requests = await undisturbed(server, 'app 0');
    const before = await databases(server);
    // Once the clone is gone the process may have ended before the signal comes.
    const drop = requests.findLastIndex((request) => request.startsWith('DROP DATABASE'));
    const places = Array.from({ length: drop }, (_, at) => at).filter((at) => at % stride === 0);
    for (let from = 0; from < places.length; from += targets.length) {
      const batch = places.slice(from, from + targets.length);
      await Promise.all(
        batch.map((at, index) => signalAt(withDatabase(server, targets[index] ?? ''), at, signal)),
      );
      expect(await databases(server)).toEqual(before);
    }
    recordFigures(
      `${signal} at each request of a rehearsal before the clone is dropped`,
      [{ runs: places.length, failures: 0 }],
      notes,
    );
  } finally {
    await server.stop();
  }
});
