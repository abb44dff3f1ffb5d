import { expect, test } from 'vitest';
import { ownServer } from '../helpers/binaries.ts';
import { type Cut, killAt, makeTargets, undisturbed } from '../helpers/cutting.ts';
import { VERSIONS } from '../helpers/servers.ts';

test.each(VERSIONS)(
  'PostgreSQL %d: kill -9 at every request of a whole rehearsal leaves what clean finds, and nothing else',
  async (version) => {
    const server = await ownServer(version);
    try {
      const targets = await makeTargets(server, 7);
      const requests = await undisturbed(server, 'app 0');
      const cuts = requests.flatMap((_, at): Cut[] => [
        { at, how: 'before' },
        { at, how: 'after' },
      ]);
      const figures = await killAt(server, targets, cuts);
      console.log(`PostgreSQL ${version}: ${requests.length} requests, ${JSON.stringify(figures)}`);
      expect(figures.runs).toBe(cuts.length);
    } finally {
      await server.stop();
    }
  },
);
