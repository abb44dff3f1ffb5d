import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { withDatabase } from '../helpers/target-state.ts';

let server: Server;
let target: string;

beforeAll(async () => {
  server = await ownServer(18);
  target = withDatabase(server.url, 'shop');
  await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
});

afterEach(() => withClient(server.url, (client) => client.query('DROP ROLE IF EXISTS masked')));
afterAll(() => server.stop());

const COMMAND = sqlCommand('CREATE TABLE notes (id int)');
/** In the target's own server, where roles are in reach. */
const prepared = (script: string, ...more: string[]) => [
  '--clone',
  'template',
  '--after-clone',
  script,
  ...more,
];

const hasRole = () =>
  withClient(server.url, async (client) => {
    const { rowCount } = await client.query(`SELECT FROM pg_roles WHERE rolname = 'masked'`);
    return rowCount === 1;
  });

test('a script of --after-clone that would reach the target is not run, nor is the command: exit code 3', async () => {
  const args = [...prepared('CREATE TABLE a (); CREATE ROLE masked'), '--', ...COMMAND];
  const { exitCode, stderr } = await safemigrate(args, { env: { DATABASE_URL: target } });
  expect(stderr).toMatch(/--after-clone CREATE TABLE a.*CREATE ROLE.*--permit cluster/s);
  expect(exitCode).toBe(3);
  expect(await hasRole()).toBe(false);
});

test('one that names the target names the clone', async () => {
  const { report, exitCode } = await rehearse(target, COMMAND, {
    args: prepared(`ALTER DATABASE shop SET work_mem = '7MB'`),
  });
  expect(exitCode).toBe(0);
  expect(report.target).toMatchObject({ changes: [], unchanged: true });
  await withClient(target, async (client) => {
    expect((await client.query('SHOW work_mem')).rows).toEqual([{ work_mem: '4MB' }]);
  });
});

test.each([
  ['was allowed to reach the target', 'CREATE ROLE masked', ['--permit', 'cluster']],
  ['hid what it does', `DO $$ BEGIN EXECUTE format('%s ROLE masked', 'CREATE'); END $$`, []],
])(
  'a script that %s changed it in our name, and nobody else is blamed: exit code 5',
  async (_, script, flags) => {
    const { report, exitCode } = await rehearse(target, COMMAND, { args: prepared(script, ...flags) });
    expect(report.target.changes).toEqual([
      {
        what: 'role masked created',
        madeBy: 'command',
        evidence: expect.stringContaining('a script of --after-clone'),
      },
    ]);
    expect(exitCode).toBe(5);
    if (flags.length > 0) expect(report.target.touched).toContain('CREATE ROLE by --after-clone');
  },
);
