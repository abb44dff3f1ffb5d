import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { disturbServer, furnishServer } from '../helpers/busy-server.ts';
import { sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
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

describe('others who write rows and definitions in the target all the time', () => {
  const DEFINES = 'CREATE TABLE of_others (id int); INSERT INTO visits VALUES (1); DROP TABLE of_others';

  /** Between two pieces of work: without it they would take a processor. */
  const PAUSE_MS = 10;

  async function beside(work: () => Promise<unknown>, rehearsing: () => Promise<void>): Promise<void> {
    let isStopped = false;
    const others = (async () => {
      while (!isStopped) {
        await work();
        await delay(PAUSE_MS);
      }
    })();
    try {
      await rehearsing();
    } finally {
      isStopped = true;
      await others;
    }
  }

  test('in new sessions: a command in the sandbox is proved to have left it alone', async () => {
    const visit = () => withClient(target, (client) => client.query(DEFINES));
    await beside(visit, async () => {
      const { report, exitCode } = await rehearse(target, sqlCommand('CREATE TABLE notes (id int)'), {
        args: ['--clone', 'cluster'],
      });
      expect(report.target.unchanged).toBe(true);
      expect(exitCode).toBe(0);
    });
  });

  test('in a session that they keep: a command that is only watched is, too', async () => {
    await withClient(target, async (client) => {
      await beside(
        () => client.query(DEFINES),
        async () => {
          const { report, exitCode } = await rehearseWatched(
            target,
            sqlCommand('CREATE TABLE notes (id int)'),
            {
              args: ['--clone', 'cluster'],
            },
          );
          expect(report.target.unchanged).toBe(true);
          expect(exitCode).toBe(0);
        },
      );
    });
  });
});
