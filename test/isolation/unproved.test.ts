import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { rehearseWatched as rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { withDatabase } from '../helpers/target-state.ts';
import { passingBy } from '../helpers/unseen-sessions.ts';

// Each on a server of its own, where nobody else is unless the test lets them in.
describe.each([14, 18] as const)('on PostgreSQL %i', (version) => {
  let server: Server;
  let target: string;

  beforeAll(async () => {
    server = await ownServer(version);
    target = withDatabase(server.url, 'shop');
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    await withClient(target, (client) => client.query('CREATE TABLE jobs (id int); CREATE SEQUENCE numbers'));
  });

  afterAll(() => server.stop());

  const comingBy = (sql: string) => passingBy(target, temporaryFolder(), sql);

  /** The watch looks every 100 ms, and may see a session that lives for some milliseconds. */
  const RACE = { retry: 4 } as const;

  test('a rehearsal in which only we came to the target is proved: each of our sessions is accounted for', async () => {
    const { report, exitCode } = await rehearse(target, sqlCommand('INSERT INTO jobs VALUES (1)'));
    expect(report.target).toMatchObject({
      unchanged: true,
      changes: [],
      sessions: { command: 0, others: 0, unexplained: 0 },
    });
    expect(report.caveats.filter(({ path: at }) => at.startsWith('target'))).toEqual([]);
    expect(exitCode).toBe(0);
  });

  test.runIf(version === 18)(
    'after code that puts texts together and executes them in the target’s server, it is not proved',
    async () => {
      const run = (execute: string) =>
        rehearse(target, sqlCommand(`DO $$ BEGIN EXECUTE ${execute}; END $$`), {
          args: ['--clone', 'template'],
        });
      const literal = await run(`'ALTER TABLE jobs ADD COLUMN one int'`);
      expect(literal.report.target.unchanged).toBe(true);
      const { report, exitCode, stderr } = await run(`format('ALTER TABLE jobs ADD COLUMN %I int', 'two')`);
      expect(report.target).toMatchObject({ unchanged: null, changes: [] });
      expect(report.caveats).toContainEqual(
        expect.objectContaining({ path: 'target.unchanged', reason: expect.stringContaining('a DO block') }),
      );
      expect(exitCode, stderr).toBe(0);
    },
  );

  test(
    'rows that a session wrote which nobody saw, on a server without others: exit code 5',
    RACE,
    async () => {
      const { report, exitCode } = await rehearse(target, comingBy('INSERT INTO jobs VALUES (2), (3)'));
      expect(report.targetConnections).toEqual([]);
      expect(report.target).toMatchObject({
        unchanged: false,
        sessions: { unexplained: 1 },
        changes: [{ what: 'rows were written (2 of public.jobs)', madeBy: 'unknown' }],
      });
      expect(exitCode).toBe(5);
    },
  );

  test('a sequence that such a session moved is a change as well', RACE, async () => {
    const { report, exitCode } = await rehearse(target, comingBy(`SELECT setval('numbers', 100)`));
    expect(report.targetConnections).toEqual([]);
    expect(report.target.changes).toMatchObject([{ what: 'sequences were used', madeBy: 'unknown' }]);
    expect(exitCode).toBe(5);
  });

  describe('with somebody else on the server', () => {
    let somebody: Client;

    beforeAll(async () => {
      somebody = new Client(server.url);
      await somebody.connect();
    });

    afterAll(() => somebody.end());

    test('it is not proved unchanged: one caveat, and the verdict is the command’s', RACE, async () => {
      const { report, exitCode } = await rehearse(target, comingBy('INSERT INTO jobs VALUES (4)'));
      expect(report.target).toMatchObject({ unchanged: null, changes: [], sessions: { unexplained: 1 } });
      expect(report.caveats.filter(({ path: at }) => at === 'target.unchanged')).toEqual([
        { path: 'target.unchanged', kind: 'unmeasured', reason: expect.stringContaining('1 session came') },
      ]);
      expect(exitCode).toBe(0);
    });

    test('--require-proof fails then, and a person reads why in the first lines', RACE, async () => {
      const { exitCode, stderr } = await safemigrate(
        ['--sandbox', 'off', '--require-proof', '--', ...comingBy('INSERT INTO jobs VALUES (5)')],
        {
          env: { DATABASE_URL: target },
        },
      );
      const report = stderr.slice(stderr.indexOf('DID NOT PASS'));
      expect(report.split('\n').slice(0, 5).join(' ').replace(/\s+/g, ' ')).toMatch(
        /--require-proof.*The target is not proved unchanged: 1 session came/,
      );
      expect(exitCode).toBe(1);
    });
  });

  test('what somebody else writes in a session that is seen does not matter', async () => {
    const waiting = scriptCommand(
      `const client = await connect();
       await client.query('CREATE TABLE notes (id int)');
       console.error('waiting');
       await new Promise((resolve) => process.stdin.once('data', resolve));
       await client.end();
       process.stdin.destroy();`,
    );
    const somebody = new Client(target);
    try {
      const visit = async () => {
        await somebody.connect();
        await somebody.query('INSERT INTO jobs VALUES (6)');
        return 'go\n';
      };
      const { report, exitCode } = await rehearse(target, waiting, { typed: [[/waiting/, visit]] });
      expect(report.target).toMatchObject({
        unchanged: true,
        changes: [],
        sessions: { others: 1, unexplained: 0 },
      });
      expect(exitCode).toBe(0);
    } finally {
      await somebody.end();
    }
  });

  afterEach(() => withClient(target, (client) => client.query('TRUNCATE jobs')));
});
