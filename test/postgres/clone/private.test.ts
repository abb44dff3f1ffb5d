import { readdir } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../../src/server/embedded.ts';
import type { ConnectionSettings } from '../../../src/target/settings.ts';
import { registryFolder } from '../../../src/upkeep/folders.ts';
import { withClient } from '../../helpers/client.ts';
import { changedUrl } from '../../helpers/cloning.ts';
import { ownServer } from '../../helpers/own-server.ts';
import {
  enterableFolder,
  type PrivateClone,
  withPrivateClone,
  withSession,
} from '../../helpers/private-clone.ts';
import { VERSIONS } from '../../helpers/servers.ts';

let parent: Awaited<ReturnType<typeof enterableFolder>>;
beforeAll(async () => {
  parent = await enterableFolder();
});
afterAll(() => parent.remove());

const ask = (settings: ConnectionSettings, sql: string) =>
  withSession(settings, (session) => session.query(sql));

describe.each(VERSIONS)('a clone on a server of its own, PostgreSQL %d', (version) => {
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

      const reasons = clone.limits.map(({ reason }) => reason).join('\n');
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
