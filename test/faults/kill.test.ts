import { readdirSync } from 'node:fs';
import path from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { PROGRAM, plainEnvironment, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import {
  type Cut,
  databases,
  isRunning,
  killAt,
  makeTargets,
  rehearseThroughRelay,
  signalAt,
  undisturbed,
  until,
  withDatabase,
} from '../helpers/cutting.ts';
import { ownServer } from '../helpers/own-server.ts';

const PARALLEL = 6;
/** Places are counted on an undisturbed run; two sessions read a schema, so that the same number may be another request. */
const RECOUNT = 2;
let server: Server;
let targets: string[];
let requests: string[];

beforeAll(async () => {
  server = await ownServer(18);
  targets = await makeTargets(server, PARALLEL + 1);
  requests = await undisturbed(server, 'app 0');
});
afterAll(() => server.stop());

const indexOf = (text: RegExp) => requests.findIndex((request) => text.test(request));

test('kill -9 between any two statements of the making of a clone leaves what clean finds, and nothing else', {
  retry: RECOUNT,
  timeout: 120_000,
}, async () => {
  const from = indexOf(/^CREATE DATABASE/) - 1;
  const to = indexOf(/ALLOW_CONNECTIONS true/) + 2;
  expect(from).toBeGreaterThan(0);
  expect(to).toBeGreaterThan(from);
  const drop = requests.findLastIndex((request) => request.startsWith('DROP DATABASE'));
  const places = [...Array.from({ length: to - from }, (_, index) => from + index), drop];
  const cuts = places.flatMap((at): Cut[] => [
    { at, how: 'before' },
    { at, how: 'after' },
  ]);
  const { marked, unmarked } = await killAt(server, targets, cuts);
  expect(marked).toBeGreaterThan(0);
  expect(unmarked).toBeGreaterThan(0);
});

test('SIGTERM and SIGINT at any moment leave nothing, and the exit code tells the signal', {
  retry: RECOUNT,
  timeout: 120_000,
}, async () => {
  const before = await databases(server);
  const drop = requests.findLastIndex((request) => request.startsWith('DROP DATABASE'));
  const create = indexOf(/^CREATE DATABASE/);
  const places = Array.from({ length: 10 }, (_, index) => Math.floor((index * (drop - 1)) / 9));
  places.push(create, create + 1);
  for (let from = 0; from < places.length; from += PARALLEL) {
    const batch = places.slice(from, from + PARALLEL);
    await Promise.all(
      batch.map((at, index) =>
        signalAt(withDatabase(server, targets[index] ?? ''), at, index % 2 === 0 ? 'SIGTERM' : 'SIGINT'),
      ),
    );
    expect(await databases(server)).toEqual(before);
  }
});

const OURS = "SELECT FROM pg_stat_activity WHERE application_name LIKE 'safemigrate %'";
const CONTROL = "SELECT FROM pg_stat_activity WHERE application_name LIKE 'safemigrate % control'";

test('a role that is no superuser cleans what its own killed run left, and rehearses again', async () => {
  await withClient(server.url, async (client) => {
    await client.query("CREATE ROLE maker LOGIN CREATEDB PASSWORD 'maker'");
    await client.query('CREATE DATABASE shop OWNER maker');
  });
  const before = await databases(server);
  const url = changedUrl(server.url, { user: 'maker', password: 'maker', database: 'shop' });
  for (const place of [/^CREATE DATABASE/, /^COMMENT ON DATABASE/, /CREATE TABLE jobs/]) {
    const { signal } = await rehearseThroughRelay(url, (child, _, request) => {
      if (place.test(request)) child.kill('SIGKILL');
      return 'forward';
    });
    expect(signal).toBe('SIGKILL');
    // Until then a CREATE DATABASE may still come to its end, and the run is alive.
    await until('its sessions have ended', () =>
      withClient(server.url, async (client) => (await client.query(OURS)).rowCount === 0),
    );
    const [left] = (await databases(server)).filter((name) => !before.includes(name));
    if (!place.test('CREATE DATABASE')) expect(left).toMatch(/^shop_rehearsal_/);
    const { exitCode } = await safemigrate(['clean'], { env: { DATABASE_URL: url } });
    expect(exitCode).toBe(0);
    expect(await databases(server)).toEqual(before);
  }
  expect((await rehearseThroughRelay(url)).exitCode).toBe(0);
  expect(await databases(server)).toEqual(before);
});

test.each(['fast', 'immediate'] as const)(
  'a server that restarts (%s) under the command: exit code 3, the target is as it was, and nothing is left',
  { timeout: 60_000 },
  async (mode) => {
    const before = await databases(server);
    const run = rehearseThroughRelay(
      withDatabase(server, 'app 1'),
      () => 'forward',
      sqlCommand('CREATE TABLE a (); SELECT pg_sleep(60)'),
    );
    await withClient(server.url, (client) =>
      until('the command runs', () => isRunning(client, 'pg_sleep(60)')),
    );
    await server.restart(mode);
    const { exitCode, stderr } = await run;
    expect({ exitCode, stderr }).toEqual({
      exitCode: 3,
      stderr: expect.stringMatching(/was lost.*The target is as it was before/s),
    });
    expect(await databases(server)).toEqual(before);
  },
);

test.each(['SIGTERM', 'SIGKILL'] as const)(
  '%s while a safer form is tried leaves nothing that clean does not find',
  {
    timeout: 60_000,
  },
  async (signal) => {
    const before = await databases(server);
    const folder = temporaryFolder();
    const url = withDatabase(server, 'app 1');
    await withClient(url, async (client) => {
      await client.query('DROP TABLE IF EXISTS filled; CREATE TABLE filled (id int PRIMARY KEY, v int)');
      await client.query('INSERT INTO filled SELECT n, n FROM generate_series(1, 2000) n');
    });
    // On the first clone it ends at once: only a script is in a session of this name.
    const slow = `DO $$ BEGIN IF current_setting('application_name') LIKE '%proposal' THEN PERFORM pg_sleep(60); END IF; END $$`;
    const args = ['--clone', 'template', '--propose', path.join(folder, 'safer.sql'), '--'];
    const command = sqlCommand(`UPDATE filled SET v = v + 1; ${slow}`);
    const run = execa(PROGRAM[0], [...PROGRAM.slice(1), ...args, ...command], {
      env: { ...plainEnvironment(), DATABASE_URL: url },
      extendEnv: false,
      reject: false,
    });
    const sleeping =
      "SELECT FROM pg_stat_activity WHERE application_name LIKE '% proposal' AND wait_event = 'PgSleep' AND query LIKE 'DO %'";
    await until('the script runs', () =>
      withClient(server.url, async (client) => (await client.query(sleeping)).rowCount === 1),
    );
    run.kill(signal);
    await run;
    // A backend that sleeps does not notice that its client is gone: clean ends it with the clone.
    const living = signal === 'SIGKILL' ? CONTROL : OURS;
    await until('its sessions have ended', () =>
      withClient(server.url, async (client) => (await client.query(living)).rowCount === 0),
    );
    if (signal === 'SIGKILL')
      expect((await safemigrate(['clean'], { env: { DATABASE_URL: url } })).exitCode).toBe(0);
    expect(await databases(server)).toEqual(before);
    expect(readdirSync(folder)).toEqual([]);
    await withClient(url, (client) => client.query('DROP TABLE filled'));
  },
);
