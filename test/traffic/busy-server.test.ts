import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { disturbServer, furnishServer } from '../helpers/busy-server.ts';
import { sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { ownServer } from '../helpers/own-server.ts';
import { rehearse, rehearseWatched } from '../helpers/rehearse.ts';
import { passingBy } from '../helpers/unseen-sessions.ts';

// A short version of soak/accounts.test.ts.
let server: Server;
let target: string;

beforeAll(async () => {
  server = await ownServer(18);
  target = await furnishServer(server);
});

afterAll(() => server.stop());

test.each([
  ['in the target’s server', ['--clone', 'template'], false],
  ['by copying the files', ['--clone', 'cluster'], true],
])(
  'what others do at random to databases, roles and sessions is not held against the command: clone %s',
  async (_, args, inTarget) => {
    const others = disturbServer(server, { inTarget });
    try {
      for (const sql of ['CREATE TABLE notes (id int)', 'VACUUM jobs', 'DO $$ BEGIN PERFORM 1; END $$']) {
        const { report, exitCode } = await rehearse(target, sqlCommand(sql), { args });
        expect(
          report.target.changes.filter(({ madeBy }) => madeBy !== 'others' && madeBy !== 'unproved'),
        ).toEqual([]);
        expect(exitCode).toBe(0);
      }
    } finally {
      await others.stop();
    }
  },
);

test('a session of the command’s that nobody saw never counts as unchanged, however busy the server is', async () => {
  const others = disturbServer(server, { inTarget: true });
  try {
    for (const sql of ['SELECT 1', 'INSERT INTO jobs VALUES (1)']) {
      const { report } = await rehearseWatched(target, passingBy(target, temporaryFolder(), sql), {
        args: ['--clone', 'cluster'],
      });
      expect(report.target.unchanged === true && report.targetConnections.length === 0).toBe(false);
    }
  } finally {
    await others.stop();
  }
});
