import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { PROGRAM, runProgram, safemigrate } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { until } from '../helpers/cutting.ts';
import {
  type FileSystemKind,
  type LoopFileSystem,
  loopFileSystem,
  loopFileSystemObstacle,
} from '../helpers/file-system.ts';
import { asUser } from '../helpers/other-user.ts';
import { ownFolder, type PlacedServer, placedServer, SERVER_UID } from '../helpers/placed-server.ts';
import { enterableFolder } from '../helpers/private-clone.ts';
import { skipReason } from '../helpers/requirements.ts';
import { BALANCES, makeAccounts } from '../helpers/transfers.ts';

const MB = 2 ** 20;

interface Made {
  readonly url: string;
  readonly run: string;
  readonly folder: string;
}

/** By the driver most programs have, and by libpq. */
async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client(url);
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

describe.for<FileSystemKind>(['xfs', 'btrfs'])('clones that stay, on %s', async (kind) => {
  const obstacle = skipReason(await loopFileSystemObstacle(kind));
  let disk: LoopFileSystem | undefined;
  let server: PlacedServer;
  let env: NodeJS.ProcessEnv;

  beforeAll(async () => {
    if (obstacle) return;
    disk = await loopFileSystem(kind, 1500 * MB);
    server = await placedServer(kind === 'xfs' ? 18 : 15, {
      parent: disk.folder,
      settings: { max_wal_size: '100MB' },
    });
    await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
    env = { DATABASE_URL: changedUrl(server.url, { database: 'app' }) };
    await makeAccounts(env.DATABASE_URL ?? '');
  }, 60_000);

  async function make(...args: string[]): Promise<[Made, ...Made[]]> {
    const { exitCode, stderr, stdout } = await safemigrate(['clone', '--format', 'json', ...args], { env });
    expect(exitCode, stderr).toBe(0);
    return JSON.parse(stdout);
  }

  afterEach(async () => {
    if (obstacle) return;
    await safemigrate(['clean', '--kept']);
    const names = await readdir(server.folder);
    expect(names.filter((name) => name.startsWith('safemigrate_'))).toEqual([]);
  });

  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  });

  test.skipIf(obstacle)(
    'each have the whole database, are masked, and come back to their first state',
    async () => {
      const mask = ['--after-clone', "UPDATE account SET filler = 'masked'"];
      const clones = await make('--count', '3', '--keep-for', '10m', ...mask);
      const [one, other, third] = clones.map(({ url }) => url) as [string, string, string];
      for (const url of [one, other, third])
        expect(await query(url, `${BALANCES} WHERE filler = 'masked'`)).toEqual([{ sum: 0, count: 2000 }]);
      await query(one, 'DROP TABLE account; CREATE TABLE made_by_a_test ()');
      await query(other, "UPDATE account SET filler = 'of the other'");
      const listed = await safemigrate(['list']);
      expect(listed.stdout.match(/kept clone of/g)).toHaveLength(3);

      const open = new Client(one);
      open.on('error', () => {});
      await open.connect();
      const reset = await safemigrate(['reset', one]);
      expect(reset.exitCode, reset.stderr).toBe(0);
      await expect(open.query('SELECT 1')).rejects.toThrow();
      expect(await query(one, `${BALANCES} WHERE filler = 'masked'`)).toEqual([{ sum: 0, count: 2000 }]);
      expect(await query(other, 'SELECT DISTINCT filler FROM account')).toEqual([{ filler: 'of the other' }]);
      expect((await safemigrate(['reset', clones[1]?.run ?? ''])).exitCode).toBe(0);
      expect(await query(other, 'SELECT DISTINCT filler FROM account')).toEqual([{ filler: 'masked' }]);
      expect(await query(env.DATABASE_URL ?? '', 'SELECT DISTINCT length(filler) AS n FROM account')).toEqual(
        [{ n: 200 }],
      );
    },
    60_000,
  );

  test.skipIf(obstacle)(
    'are whole after a reset that was killed, by the next one',
    async () => {
      const [{ url, folder }] = await make();
      for (const moment of ['reset.lock', 'reset', 'reset/old']) {
        let pid = 0;
        const killed = runProgram([...PROGRAM, 'reset', url], {
          started: (number) => {
            pid = number;
          },
        });
        await until(moment, async () => {
          const entries = await readdir(path.join(folder, path.dirname(moment))).catch((): string[] => []);
          return entries.includes(path.basename(moment));
        });
        process.kill(pid, 'SIGKILL');
        await killed;
        const again = await safemigrate(['reset', url]);
        expect(again.exitCode, again.stderr).toBe(0);
        expect(await query(url, BALANCES)).toEqual([{ sum: 0, count: 2000 }]);
        // What it writes before it takes the lock may stay: it goes with the clone.
        const left = (await readdir(folder)).filter((name) => !/^reset\.lock\.\d+\.\w+$/.test(name));
        expect(left.filter((name) => name.startsWith('reset'))).toEqual([]);
      }
    },
    60_000,
  );

  test.skipIf(obstacle)(
    'are reset by one process at a time',
    async () => {
      const [{ url }] = await make();
      const results = await Promise.all([1, 2, 3].map(() => safemigrate(['reset', url])));
      expect(results.some(({ exitCode }) => exitCode === 0)).toBe(true);
      for (const { stderr } of results.filter(({ exitCode }) => exitCode !== 0))
        expect(stderr).toContain('is being reset by the process');
      expect(await query(url, BALANCES)).toEqual([{ sum: 0, count: 2000 }]);
    },
    60_000,
  );

  test.skipIf(obstacle)(
    'leave nothing if their making is killed',
    async () => {
      const ours = async () => {
        const names = await readdir(server.folder);
        return names.filter((name) => name.startsWith('safemigrate_'));
      };
      let pid = 0;
      const killed = runProgram([...PROGRAM, 'clone', '--count', '3'], {
        env,
        started: (number) => {
          pid = number;
        },
      });
      await until('the first state is saved', async () => {
        const folders = (await ours()).map((name) => path.join(server.folder, name));
        const inside = await Promise.all(folders.map((folder) => readdir(folder).catch((): string[] => [])));
        return inside.flat().includes('first');
      });
      process.kill(pid, 'SIGKILL');
      await killed;
      await until('its watchdogs have removed them', async () => (await ours()).length === 0);
      await until('they are forgotten', async () =>
        (await safemigrate(['list'])).stdout.includes('Nothing of'),
      );
    },
    120_000,
  );

  test.skipIf(obstacle)(
    "are made and reset by the server's own user just as by root",
    async () => {
      const home = await enterableFolder();
      try {
        const state = path.join(home.path, 'state');
        await ownFolder(state);
        const asItsUser = (...words: string[]) =>
          runProgram([...asUser(SERVER_UID), ...PROGRAM, ...words], {
            env: { ...env, HOME: state, XDG_STATE_HOME: state },
          });
        const made = await asItsUser('clone', '--count', '2');
        expect(made.exitCode, made.stderr).toBe(0);
        const [, url = ''] = made.stdout.trim().split('\n');
        await query(url, 'DROP TABLE account');
        const reset = await asItsUser('reset', url);
        expect(reset.exitCode, reset.stderr).toBe(0);
        expect(await query(url, BALANCES)).toEqual([{ sum: 0, count: 2000 }]);
        expect((await asItsUser('clean', '--kept')).stdout.match(/^removed /gm)).toHaveLength(2);
      } finally {
        await home.remove();
      }
    },
    60_000,
  );

  test.skipIf(obstacle)(
    'end when their time is up',
    async () => {
      const [{ run, folder }] = await make('--keep-for', '4s');
      await until('it has ended', async () => (await readdir(folder).catch(() => null)) === null);
      await until('it is forgotten', async () => !(await safemigrate(['list'])).stdout.includes(run));
      expect((await safemigrate(['reset', run])).exitCode).toBe(2);
    },
    120_000,
  );
});

describe('a clone that stays', async () => {
  const obstacle = skipReason(await loopFileSystemObstacle('ext4'));
  test.skipIf(obstacle)('is refused where a reset would copy everything', async () => {
    const disk = await loopFileSystem('ext4', 300 * MB);
    const server = await placedServer(18, { parent: disk.folder });
    const { exitCode, stderr } = await safemigrate(['clone'], { env: { DATABASE_URL: server.url } });
    expect(exitCode).toBe(3);
    expect(stderr).toContain('needs files that share blocks');
    await server.stop();
    await disk.destroy();
  });

  test('that is not there cannot be reset', async () => {
    const { exitCode, stderr } = await safemigrate(['reset', 'nothing']);
    expect(exitCode).toBe(2);
    expect(stderr).toContain('There is no clone "nothing"');
  });
});
