import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { type CliOptions, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { scriptCommand } from '../helpers/rehearse.ts';
import { serverUrl, useOwnServers } from '../helpers/servers.ts';
import { withDatabase } from '../helpers/target-state.ts';

let target: TemporaryDatabase;
let folder: string;
/** A file with the target's URL: nobody rewrites that. */
let hardCoded: string;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18, { sql: 'CREATE TABLE jobs (id int); INSERT INTO jobs VALUES (1)' });
  folder = temporaryFolder();
  hardCoded = path.join(folder, 'url');
  writeFileSync(hardCoded, target.url);
});

afterEach(() => target.drop());

/** In the target's own server, where what all databases share is within the command's reach. */
const SHARED = ['--clone', 'template'];

/** Outside of the sandbox, which would prevent it. */
const WATCHED = ['--sandbox', 'off'];

async function rehearse(command: string[], options: CliOptions = {}, flags: string[] = []) {
  const env = { DATABASE_URL: target.url };
  const result = await safemigrate([...SHARED, ...flags, '--format', 'json', '--', ...command], {
    env,
    folder,
    ...options,
  });
  return { ...result, report: readReport(result.stdout) };
}

/** A script that waits, before the command runs, until somebody has called a session `visit over`. */
const UNTIL_OVER = `DO $$ BEGIN LOOP PERFORM pg_stat_clear_snapshot();
  EXIT WHEN EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'visit over');
  PERFORM pg_sleep(0.02); END LOOP; END $$`;
const AFTER_CLONE_WAITS = `SELECT FROM pg_stat_activity
  WHERE application_name LIKE 'safemigrate % after-clone' AND query LIKE 'DO%'`;

/** The watch over the target's sessions looks every 100 ms, and may end this one before it has changed anything. */
const RACE = { retry: 4 } as const;

describe('a command that changes the target itself', () => {
  test('by a URL that nobody could rewrite: exit code 5, and the exact change is named', RACE, async () => {
    const { exitCode, report } = await rehearse(
      sqlCommand('ALTER TABLE jobs ADD COLUMN done bool', hardCoded),
      {},
      WATCHED,
    );
    expect(exitCode).toBe(5);
    // Its session may be over before it is seen.
    expect(report.target.changes).toMatchObject([
      { what: 'create column public.jobs.done', madeBy: expect.stringMatching(/^(command|unknown)$/) },
    ]);
    expect(report.verdict.pass).toBe(false);
    expect(report.verdict.reasons[0]).toContain('public.jobs.done');
  });

  test('a person is told so in the first lines', RACE, async () => {
    const env = { DATABASE_URL: target.url };
    const command = sqlCommand('DROP TABLE jobs', hardCoded);
    const { stderr } = await safemigrate([...WATCHED, '--', ...command], { env });
    const firstLines = stderr.trimStart().split('\n').slice(0, 6).join('\n');
    expect(firstLines).toMatch(/changed the target|the target changed/i);
    expect(stderr).toContain('public.jobs');
  });

  describe('through the clone, by a statement for the whole server', () => {
    let server: Server;

    beforeAll(async () => {
      server = await ownServer(18);
      await withClient(server.url, async (client) => {
        await client.query('CREATE DATABASE shop');
        await client.query('CREATE ROLE migrator');
      });
    });

    afterAll(() => server.stop());

    const onServer = (sql: string, ...options: string[]) =>
      rehearse(sqlCommand(sql), { env: { DATABASE_URL: withDatabase(server.url, 'shop') } }, options);

    test.each([
      [`ALTER ROLE migrator SET statement_timeout = '1s'`, /role migrator/],
      ['CREATE ROLE reporting', /role reporting created/],
    ])('%s is not run, and where it is allowed, it is told: exit code 5', async (sql, expected) => {
      const refused = await onServer(sql);
      expect(refused.exitCode).toBe(1);
      expect(refused.report.target.changes).toEqual([]);
      expect(refused.report.verdict.reasons[0]).toMatch(/was not run/);
      expect(refused.stdout).toContain('--permit cluster');

      const allowed = await onServer(sql, '--permit', 'cluster');
      expect(allowed.exitCode).toBe(5);
      expect(allowed.report.target.changes).toMatchObject([
        { what: expect.stringMatching(expected), madeBy: 'command' },
      ]);
    });

    /** Waits in the middle of a transaction while somebody else does something. */
    const WAITING = `
      const client = await connect();
      await client.query('BEGIN');
      await client.query('CREATE TABLE notes (id int)');
      console.error('waiting');
      await new Promise((resolve) => process.stdin.once('data', resolve));
      await client.query(args[0]);
      await client.query('COMMIT');
      await client.end();
      process.stdin.destroy();`;

    /** Somebody else does something while the command waits. */
    const besideCommand = (act: string | (() => Promise<unknown>), command: string[]) =>
      rehearse(command, {
        env: { DATABASE_URL: withDatabase(server.url, 'shop') },
        typed: [
          [
            /waiting/,
            async () => {
              await (typeof act === 'string' ? withClient(server.url, (dba) => dba.query(act)) : act());
              return 'go\n';
            },
          ],
        ],
      });

    test('a role that somebody else altered while the command ran has an unknown author, and nobody is blamed', async () => {
      await withClient(server.url, async (client) => {
        await client.query('DROP ROLE IF EXISTS accountant');
        await client.query('CREATE ROLE accountant');
      });
      const { exitCode, report } = await besideCommand(
        `ALTER ROLE accountant SET work_mem = '9MB'`,
        scriptCommand(WAITING, 'INSERT INTO notes VALUES (1)'),
      );
      expect(report.target.changes).toMatchObject([
        {
          what: 'role accountant: settings none → work_mem=9MB',
          madeBy: 'unknown',
          evidence: expect.stringContaining("not seen to be the command's"),
        },
      ]);
      expect(report.verdict.reasons[0]).toMatch(/who changed it is unknown/);
      expect(exitCode).toBe(5);
    });

    test('one that came while somebody else was connected is not held against a command that ran code out of sight', async () => {
      await withClient(server.url, async (dba) => {
        const { exitCode, report } = await besideCommand(
          'CREATE ROLE auditor',
          scriptCommand(WAITING, 'DO $$ BEGIN PERFORM 1; END $$'),
        );
        expect(report.target).toMatchObject({
          unchanged: null,
          changes: [{ what: 'role auditor created', madeBy: 'unproved' }],
        });
        expect(report.caveats).toContainEqual({
          path: 'target.unchanged',
          kind: 'unmeasured',
          reason: expect.stringMatching(/others were active.*: role auditor created/),
        });
        expect(exitCode).toBe(0);
        await dba.query('DROP ROLE auditor');
      });
    });

    test('one that somebody who was connected made beside plain statements is theirs', async () => {
      await withClient(server.url, async (dba) => {
        const { exitCode, report } = await besideCommand(
          () => dba.query('CREATE ROLE auditor'),
          scriptCommand(WAITING, 'SELECT 1'),
        );
        await dba.query('DROP ROLE auditor');
        expect(report.target).toMatchObject({
          unchanged: true,
          changes: [{ what: 'role auditor created', madeBy: 'others' }],
        });
        expect(exitCode).toBe(0);
      });
    });

    test('a role that somebody altered before the command ran was altered by others', async () => {
      await withClient(server.url, async (watcher) => {
        await watcher.query('CREATE ROLE early');
        const running = onServer('CREATE TABLE later (id int)', '--after-clone', UNTIL_OVER);
        while ((await watcher.query(AFTER_CLONE_WAITS)).rowCount === 0);
        await watcher.query('ALTER ROLE early CREATEDB');
        await watcher.query("SET application_name = 'visit over'");
        const { exitCode, report } = await running;
        expect(report.target.changes).toEqual([
          {
            what: 'role early: rolcreatedb false → true',
            madeBy: 'others',
            evidence: 'it was there before the command ran',
          },
        ]);
        expect(exitCode).toBe(0);
      });
    });

    test('a database that somebody else made while the command ran is noted as theirs', async () => {
      const { exitCode, report } = await besideCommand(
        'CREATE DATABASE branch',
        scriptCommand(WAITING, 'INSERT INTO notes VALUES (1)'),
      );
      expect(report.target.changes).toMatchObject([{ what: 'database branch created', madeBy: 'others' }]);
      expect(exitCode).toBe(0);
    });

    test('one that the command altered out of sight is its own, whatever others did beside it', async () => {
      await withClient(server.url, (client) => client.query('CREATE ROLE teller; CREATE ROLE cashier'));
      const { exitCode, report } = await besideCommand(
        'ALTER ROLE teller CREATEDB',
        scriptCommand(WAITING, `DO $$ BEGIN EXECUTE format('%s ROLE cashier CREATEDB', 'ALTER'); END $$`),
      );
      expect(report.target.changes).toMatchObject([
        { what: 'role cashier: rolcreatedb false → true', madeBy: 'command' },
        { what: 'role teller: rolcreatedb false → true', madeBy: 'unknown' },
      ]);
      expect(exitCode).toBe(5);
    });

    test('one that it altered past the proxy, in a database that nobody watches, is not put down to others', async () => {
      await withClient(server.url, (client) => client.query('CREATE ROLE sneaky'));
      const url = path.join(folder, 'elsewhere');
      writeFileSync(url, withDatabase(server.url, 'template1'));
      const { exitCode, report } = await rehearse(
        [
          'sh',
          '-c',
          `"$@" && exec "$0" ${scriptCommand('').slice(1, 2)} 'await (await connect()).end()'`,
          process.execPath,
          ...sqlCommand('ALTER ROLE sneaky CREATEDB', url),
        ],
        { env: { DATABASE_URL: withDatabase(server.url, 'shop') } },
        WATCHED,
      );
      expect(report.command).toMatchObject({ exitCode: 0, reachedClone: true });
      expect(report.target.changes).toMatchObject([
        { what: 'role sneaky: rolcreatedb false → true', madeBy: 'unknown' },
      ]);
      expect(exitCode).toBe(5);
    });

    test('ALTER DATABASE with the target’s name takes effect on the clone', async () => {
      const { exitCode, report } = await onServer(`ALTER DATABASE shop SET work_mem = '7MB'`);
      expect(exitCode).toBe(0);
      expect(report.target.changes).toEqual([]);
      await withClient(withDatabase(server.url, 'shop'), async (client) => {
        expect((await client.query('SHOW work_mem')).rows).toEqual([{ work_mem: '4MB' }]);
      });
    });
  });
});

describe('others who change the target meanwhile', () => {
  test('are noted, and the exit code is the command’s', async () => {
    const { exitCode, report } = await rehearse(
      ['sh', '-c', '"$@"; echo waiting >&2; read go', 'sh', ...sqlCommand('CREATE TABLE other (id int)')],
      {
        typed: [
          [
            /waiting/,
            async () => {
              await withClient(target.url, (client) =>
                client.query('ALTER TABLE jobs ADD COLUMN by_others int'),
              );
              return 'go\n';
            },
          ],
        ],
      },
    );
    expect(report.target.changes).toMatchObject([
      { what: 'create column public.jobs.by_others', madeBy: 'others' },
    ]);
    expect(report.verdict).toMatchObject({ pass: true, reasons: [] });
    expect(exitCode).toBe(0);
  });

  test('are known by what they changed before it ran, though they did the very same', async () => {
    const sql = 'CREATE TABLE other (id int)';
    await withClient(serverUrl(18), async (watcher) => {
      const running = rehearse(sqlCommand(sql), {}, ['--after-clone', UNTIL_OVER]);
      while ((await watcher.query(AFTER_CLONE_WAITS)).rowCount === 0);
      await withClient(target.url, (client) => client.query(sql));
      await watcher.query("SET application_name = 'visit over'");
      const { exitCode, report } = await running;
      expect(report.target.changes).toMatchObject([
        {
          what: 'create table public.other',
          madeBy: 'others',
          evidence: 'it was there before the command ran',
        },
      ]);
      expect(exitCode).toBe(0);
    });
  });

  test('and rows alone are not a change that anybody is warned of', async () => {
    const { exitCode, report } = await rehearse([
      'sh',
      '-c',
      '"$@"',
      'sh',
      ...sqlCommand('UPDATE jobs SET id = 2'),
    ]);
    expect(exitCode).toBe(0);
    expect(report.target.changes).toEqual([]);
    await withClient(target.url, async (client) => {
      expect((await client.query('SELECT id FROM jobs')).rows).toEqual([{ id: 1 }]);
    });
  });
});

describe('a command whose connection only a file has', () => {
  test("finds the clone at the target's address by default: nothing is written there", async () => {
    const command = sqlCommand('ALTER TABLE jobs ADD COLUMN done bool', hardCoded);
    const { exitCode, report, stderr } = await rehearse(command);
    expect(exitCode, stderr).toBe(0);
    expect(report.command).toMatchObject({ byAddress: true, rewritten: [] });
    expect(report.schema?.changes).toMatchObject([{ verb: 'create', object: 'public.jobs.done' }]);
    await withClient(target.url, async (client) => {
      expect((await client.query('SELECT * FROM jobs')).fields.map(({ name }) => name)).toEqual(['id']);
    });
  });
});

describe('a command that never connects', () => {
  test('has rehearsed nothing: exit code 1, with what can be done about it', async () => {
    const env = { DATABASE_URL: target.url };
    const { exitCode, stderr } = await safemigrate(['--', 'true'], { env });
    expect(exitCode).toBe(1);
    expect(stderr).toContain('never connected');
    const words = stderr.replace(/\s+/g, ' ');
    expect(words).toContain('the command needed no database, or looked for it elsewhere');
    expect(words).toContain('--permit HOST:PORT');
  });

  test('a read of the target alone is no change of it', RACE, async () => {
    const { exitCode, report } = await rehearse(sqlCommand('SELECT * FROM jobs', hardCoded), {}, WATCHED);
    expect(report.target.changes).toEqual([]);
    expect(exitCode).toBe(1);
  });
});
