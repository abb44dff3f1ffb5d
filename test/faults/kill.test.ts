import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
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
