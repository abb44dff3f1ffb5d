import { readdir, readFile, readlink, rm } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { SafemigrateError } from '../../../src/errors.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { type FolderEntry, readEntries, registryFolder } from '../../../src/ownership/folder-records.ts';
import type { ConnectionSettings } from '../../../src/postgres/connection/connection-settings.ts';
import { withClient } from '../../helpers/client.ts';
import { changedUrl } from '../../helpers/cloning.ts';
import { ownServer } from '../../helpers/own-server.ts';
import {
  copyByHand,
  enterableFolder,
  type PrivateClone,
  withPrivateClone,
  withSession,
} from '../../helpers/private-clone.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

let parent: Awaited<ReturnType<typeof enterableFolder>>;
beforeAll(async () => {
  parent = await enterableFolder();
});
afterAll(() => parent.remove());

const ask = (settings: ConnectionSettings, sql: string) =>
  withSession(settings, (session) => session.query(sql));

describe.each(OLDEST_AND_NEWEST)('a clone on a server of its own, PostgreSQL %d', (version) => {
  let server: Server;
  let url: string;
  beforeAll(async () => {
    server = await ownServer(version, { settings: { max_prepared_transactions: '5', work_mem: '7MB' } });
    await withClient(server.url, async (client) => {
      await client.query("CREATE ROLE app LOGIN PASSWORD 'app'");
      await client.query('CREATE DATABASE shop OWNER app');
      await client.query('CREATE DATABASE other');
    });
    url = changedUrl(server.url, { user: 'app', password: 'app', database: 'shop' });
    await withClient(url, async (client) => {
      await client.query('CREATE TABLE items AS SELECT generate_series(1, 1000) AS id');
      await client.query('CREATE UNLOGGED TABLE scratch AS SELECT 1 AS id');
      await client.query('BEGIN; LOCK TABLE items');
      await client.query(`PREPARE TRANSACTION 'held'`);
    });
  });
  afterAll(() => server.stop());

  const made = (use: (clone: PrivateClone) => Promise<void>) =>
    withPrivateClone(server, url, { parent: parent.path }, use);

  test('has the rows of the target, under its name and for its roles, and is gone afterwards', async () => {
    await made(async ({ clone, folder }) => {
      const [row] = await ask(
        clone.connect,
        `SELECT current_user::text AS who, current_database()::text AS at, current_setting('work_mem') AS memory,
                (SELECT count(*)::int FROM public.items) AS items`,
      );
      expect(row).toEqual({ who: 'app', at: 'shop', memory: '7MB', items: 1000 });
      expect(await readdir(parent.path)).toEqual([folder.slice(parent.path.length + 1)]);
      expect(await clone.uniqueBytes()).toBeGreaterThan(1e6);

      const reasons = clone.caveats.map(({ reason }) => reason).join('\n');
      expect(reasons).toMatch(/1 prepared transaction .* rolled back/);
      expect(reasons).toMatch(/1 unlogged table .* empty/);
      expect(await ask(clone.connect, 'SELECT * FROM public.scratch')).toEqual([]);

      for (const database of ['other', 'template0'])
        await expect(ask({ ...clone.connect, database }, 'SELECT 1')).rejects.toMatchObject({
          sqlstate: '55000',
        });
      const [control] = await clone.server.control.query('SELECT pg_is_in_recovery() AS recovering');
      expect(control).toEqual({ recovering: false });
    });
    expect(await readdir(parent.path)).toEqual([]);
    expect(await readdir(registryFolder())).toEqual([]);
    await withClient(server.url, async (client) => {
      expect((await client.query('SELECT gid FROM pg_prepared_xacts')).rows).toEqual([{ gid: 'held' }]);
    });
  });
});

describe('a clone on a server of its own that goes wrong', () => {
  let server: Server;
  let url: string;
  beforeAll(async () => {
    server = await ownServer(18);
    await withClient(server.url, async (client) => {
      await client.query("CREATE ROLE app LOGIN PASSWORD 'app'");
      await client.query('CREATE DATABASE shop OWNER app');
    });
    await withClient(changedUrl(server.url, { database: 'shop' }), (client) =>
      client.query(
        'CREATE EXTENSION dblink; CREATE EXTENSION postgres_fdw; CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw',
      ),
    );
    url = changedUrl(server.url, { user: 'app', password: 'app', database: 'shop' });
  });
  afterAll(() => server.stop());
  afterEach(async () => {
    expect(await readdir(parent.path)).toEqual([]);
    expect(await readdir(registryFolder()).catch(() => [])).toEqual([]);
  });

  const made = (options: object, use: (clone: PrivateClone) => Promise<void>) =>
    withPrivateClone(server, url, { parent: parent.path, allowExternalAccess: true, ...options }, use);

  test('is refused where it could reach other systems, before anything is made', async () => {
    let filled = false;
    const fill = async (folder: string) => {
      filled = true;
      return copyByHand(server, folder);
    };
    // What this role may not know of the original cannot be hidden from the clone.
    await expect(made({ allowExternalAccess: false, fill }, async () => {})).rejects.toMatchObject({
      code: 'CLONE',
      message: expect.stringContaining('the target has: extension dblink, foreign server far'),
      hint: expect.stringContaining('--permit external'),
    });
    expect(filled).toBe(false);
  });

  test('says with the server’s log why it does not start', async () => {
    const fill = async (folder: string) => {
      const filled = await copyByHand(server, folder);
      await rm(path.join(folder, 'data', 'global', 'pg_control'));
      return filled;
    };
    await expect(made({ fill }, async () => {})).rejects.toMatchObject({
      code: 'CLONE',
      message: expect.stringContaining('pg_control'),
    });
  });

  test('leaves nothing of a copy that failed half-way', async () => {
    const fill = async (folder: string) => {
      await copyByHand(server, folder);
      throw new SafemigrateError('DISK', 'no space');
    };
    await expect(made({ fill }, async () => {})).rejects.toMatchObject({ code: 'DISK' });
  });

  test.each<[string, (folder: string) => Promise<number>, RegExp]>([
    [
      'server',
      async (folder) => Number(await readFile(path.join(folder, 'server.pid'), 'utf8')),
      /lost|ended/,
    ],
    ['watchdog', async () => (await theEntry()).watchdog?.pid ?? 0, /its watchdog was lost/],
  ])('ends the run when its %s is killed', async (_, pidOf, message) => {
    const fail = vi.fn();
    await made({ fail }, async ({ folder }) => {
      process.kill(await pidOf(folder), 'SIGKILL');
      await expect.poll(() => fail.mock.calls).toHaveLength(1);
      expect(fail).toHaveBeenCalledWith(
        expect.objectContaining({ code: 'LOST', message: expect.stringMatching(message) }),
      );
    });
    expect(fail).toHaveBeenCalledTimes(1);
  });

  test.skipIf(process.platform !== 'linux')('takes with it what the server has started', async () => {
    let sleeper: string | undefined;
    const duration = `60.${process.pid}`;
    await made({}, async ({ clone }) => {
      const session = await clone.server.open('test');
      session.query(`COPY (SELECT 1) TO PROGRAM 'exec sleep ${duration}'`).catch(() => {});
      const find = async () => {
        sleeper = await processRunning(`sleep ${duration}`);
        return sleeper;
      };
      await expect.poll(find).toBeDefined();
    });
    // Of a process that ended and is not collected yet there is no folder to be read.
    await expect(readlink(`/proc/${sleeper}/cwd`)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  /** By its command line: the clone knows the numbers of its own namespace only. */
  async function processRunning(command: string): Promise<string | undefined> {
    for (const number of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
      const words = await readFile(`/proc/${number}/cmdline`, 'utf8').catch(() => '');
      if (words.split('\0').join(' ').trim() === command) return number;
    }
    return undefined;
  }

  async function theEntry(): Promise<FolderEntry> {
    const [entry] = await readEntries();
    if (!entry || 'unreadable' in entry) throw new Error('a clone that runs has an entry');
    return entry;
  }
});
