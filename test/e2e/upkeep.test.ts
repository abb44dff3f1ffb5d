import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { newRunId } from '../../src/ownership/run-id.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { withDatabase } from '../helpers/target-state.ts';

/** `clean` drops whatever dead runs left on a server, so this one is nobody else's. */
let server: Server;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  server = await ownServer(18);
  await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
  env = { DATABASE_URL: withDatabase(server.url, 'shop'), SAFEMIGRATE_CLONE: 'template' };
});

afterAll(() => server.stop());

const databases = () =>
  withClient(server.url, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      `SELECT datname FROM pg_database WHERE datname LIKE 'shop_%' ORDER BY 1`,
    );
    return rows.map(({ datname }) => datname);
  });

async function keep(): Promise<string> {
  const args = ['--keep', '--format', 'json', '--', ...sqlCommand('CREATE TABLE jobs (id int)')];
  const { stdout, stderr } = await safemigrate(args, { env });
  const { clone } = readReport(stdout);
  expect(stderr).toContain(`dbname=${clone.database}`);
  expect(stderr).toContain('safemigrate clean --kept');
  return clone.database;
}

/** Without what other tests' dead runs left on this machine meanwhile. */
async function own(...args: string[]) {
  const result = await safemigrate(args, { env });
  return { ...result, stdout: result.stdout.replace(/^removed \S+\/safemigrate-command-.*\n/gm, '') };
}

describe('a clone that was kept', () => {
  let clone: string;

  beforeEach(async () => {
    await own('clean', '--kept');
    clone = await keep();
  });

  test('holds the migrated schema, and is listed as kept', async () => {
    await withClient(withDatabase(server.url, clone), async (client) => {
      expect((await client.query('SELECT * FROM jobs')).rows).toEqual([]);
    });
    const text = await own('list');
    expect(text).toMatchObject({ exitCode: 0, stderr: '' });
    expect(text.stdout).toMatch(new RegExp(`^${clone} +kept clone +.* ago +\\d.* [kM]B +0$`, 'm'));
    const json: unknown = JSON.parse((await own('list', '--format', 'json')).stdout);
    expect(json).toMatchObject([{ name: clone, role: 'clone', kept: true, owning: 'dead', sessions: 0 }]);
  });

  test('is left by clean, which says how to drop it, and dropped by clean --kept', async () => {
    const left = await own('clean');
    expect(left.exitCode).toBe(0);
    expect(left.stdout).toMatch(new RegExp(`left +${clone}: .*clean --kept`));
    expect(await databases()).toEqual([clone]);
    const dropped = await own('clean', '--kept');
    expect(dropped).toMatchObject({ exitCode: 0, stdout: `dropped ${clone}\n`, stderr: '' });
    expect(await databases()).toEqual([]);
    await expect
      .poll(async () => (await own('clean', '--kept')).stdout, { timeout: 60_000 })
      .toMatch(/^Nothing to clean on 127\.0\.0\.1:\d+ \(from DATABASE_URL\)\.\n$/);
    expect((await own('list')).stdout).toMatch(/^Nothing of safemigrate is on 127\.0\.0\.1:\d+ /);
  });

  test('of a failed migration can be looked into as well', async () => {
    const args = ['--keep', '--', ...sqlCommand('CREATE TABLE half (id int); COMMIT; SELECT 1/0')];
    const { exitCode, stderr } = await safemigrate(args, { env });
    expect(exitCode).toBe(1);
    expect(stderr).toContain('The clone is kept.');
  });
});

test('a server that does not answer keeps nobody from what is on this machine', async () => {
  const run = newRunId();
  const folders = path.join(temporaryFolder(), 'safemigrate', 'clones');
  await mkdir(folders, { recursive: true });
  await writeFile(path.join(folders, `${run}.json`), 'spoiled');
  const state = { XDG_STATE_HOME: path.resolve(folders, '../..') };
  const nowhere = { ...state, DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/nothing' };
  for (const word of ['list', 'clean']) {
    const { exitCode, stdout } = await safemigrate([word], { env: nowhere });
    expect({ exitCode, stdout }).toEqual({ exitCode: 3, stdout: expect.stringContaining(`${run}.json`) });
  }
  const { exitCode, stdout } = await safemigrate(['list'], { env: state });
  expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: expect.stringContaining('cannot be read') });
});

describe('a run that is alive', () => {
  test('is listed as such, and clean leaves its clone alone', async () => {
    await own('clean', '--kept');
    const waiting = [
      'sh',
      '-c',
      '"$@"; echo waiting; read go',
      'sh',
      ...sqlCommand('CREATE TABLE t (id int)'),
    ];
    const { exitCode, stderr } = await safemigrate(['--', ...waiting], {
      env,
      typed: [
        [
          /waiting/,
          async () => {
            expect((await own('list')).stdout).toMatch(/clone of a run that is alive/);
            expect((await own('clean', '--kept')).stdout).toMatch(/^left .* alive$/m);
            return 'go\n';
          },
        ],
      ],
    });
    expect(exitCode, stderr).toBe(0);
    expect(await databases()).toEqual([]);
  });
});

describe('what somebody else named like ours', () => {
  test('is listed with the doubt about it, and never dropped', async () => {
    await own('clean', '--kept');
    const name = 'shop_rehearsal_1m7yr7e6rj6fg';
    await withClient(server.url, (client) => client.query(`CREATE DATABASE ${name}`));
    onTestFinished(async () => {
      await withClient(server.url, (client) => client.query(`DROP DATABASE ${name}`));
    });
    expect((await own('list')).stdout).toContain('not provably ours');
    const { exitCode, stdout } = await own('clean', '--kept');
    expect(stdout).toMatch(new RegExp(`^left +${name}: `));
    expect(exitCode).toBe(0);
    expect(await databases()).toEqual([name]);
  });
});

describe('--timeout', () => {
  test('ends the command and everything it started, and says so: exit code 1', async () => {
    const sleeping = [
      'sh',
      '-c',
      '"$@"; sleep 100 & sleep 100',
      'sh',
      ...sqlCommand('CREATE TABLE t (id int)'),
    ];
    const { exitCode, stderr } = await safemigrate(['--timeout', '1s', '--', ...sleeping], { env });
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/longer than --timeout/);
    expect(await databases()).toEqual([]);
  });
});
