import { chmod, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findSandbox } from '../../../src/clone/private/sandbox.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
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
import { skipReason } from '../../helpers/requirements.ts';
import { VERSIONS } from '../../helpers/servers.ts';

const cage = await findSandbox({ uid: 65_534, gid: 65_534 }, []);
const open = skipReason(
  cage.closed ? null : 'this machine gives no namespaces to take the network away with',
);

let parent: Awaited<ReturnType<typeof enterableFolder>>;
beforeAll(async () => {
  parent = await enterableFolder();
});
afterAll(() => parent.remove());

/** An original that archives, replicates, subscribes and preloads a library that could start jobs. */
describe.each(VERSIONS.filter((version) => version === 14 || version === 18))('PostgreSQL %d', (version) => {
  let server: Server;
  let publisher: Server;
  let archive: string;
  let url: string;

  const original = <T>(use: (client: Client) => Promise<T>) => withClient(url, use);
  const subscribers = () =>
    withClient(publisher.url, async (client) => {
      const { rows } = await client.query<{ pid: number }>(
        "SELECT pid FROM pg_stat_replication WHERE application_name = 'news'",
      );
      return rows.map(({ pid }) => pid);
    });

  beforeAll(async () => {
    archive = await mkdtemp(path.join(tmpdir(), 'archive-'));
    await chmod(archive, 0o777);
    publisher = await ownServer(version, { settings: { wal_level: 'logical' } });
    await withClient(publisher.url, async (client) => {
      await client.query('CREATE TABLE news (id int PRIMARY KEY)');
      await client.query('CREATE PUBLICATION news FOR TABLE news');
    });
    server = await ownServer(version, {
      settings: {
        archive_mode: 'on',
        archive_command: `cp %p ${archive}/%f`,
        shared_preload_libraries: 'pg_stat_statements, sslinfo',
        shared_buffers: '160MB',
        cluster_name: 'production',
      },
    });
    url = changedUrl(server.url, { database: 'shop' });
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    await original(async (client) => {
      await client.query('CREATE TABLE news (id int PRIMARY KEY)');
      const { host, port, user, password } = publisher;
      await client.query(
        `CREATE SUBSCRIPTION news
         CONNECTION 'host=${host} port=${port} user=${user} password=${password} dbname=postgres' PUBLICATION news`,
      );
      await client.query(`SELECT pg_create_physical_replication_slot('standby', true)`);
      await client.query('CREATE EXTENSION dblink');
      await client.query(`ALTER SYSTEM SET synchronous_standby_names = 'standby'`);
      await client.query(`ALTER ROLE ALL SET synchronous_commit = local`);
      await client.query('SELECT pg_reload_conf()');
    });
  });
  afterAll(async () => {
    await server.stop();
    await publisher.stop();
    await rm(archive, { recursive: true });
  });

  const made = <T>(use: (clone: PrivateClone) => Promise<T>, more: object = {}) =>
    withPrivateClone(server, url, { parent: parent.path, ...more }, use);

  test.skipIf(open)(
    'its clone neither archives, nor replicates, nor subscribes, nor reaches anything',
    async () => {
      await expect.poll(subscribers).toHaveLength(1);
      const before = await subscribers();
      await made(async ({ clone }) => {
        const session = await clone.server.open('test');
        const archived = await readdir(archive);
        await session.query('CREATE TABLE public.written (id int)');
        // With a standby to wait for it would not return.
        await session.query(`SET synchronous_commit = on`);
        await session.query('INSERT INTO public.written VALUES (1)');
        await session.query('SELECT pg_switch_wal()');
        await session.query('CHECKPOINT');
        expect(await session.query('SELECT slot_name FROM pg_replication_slots')).toEqual([]);
        expect(
          await session.query(
            `SELECT backend_type FROM pg_stat_activity
            WHERE backend_type ~ 'archiver|logical|walsender|walreceiver|parallel'`,
          ),
        ).toEqual([]);
        expect(
          await session.query(
            `SELECT name, setting FROM pg_settings
            WHERE name IN ('listen_addresses', 'cluster_name', 'max_worker_processes', 'shared_buffers',
                           'shared_preload_libraries', 'archive_mode', 'synchronous_standby_names') ORDER BY 1`,
          ),
        ).toEqual([
          { name: 'archive_mode', setting: 'off' },
          { name: 'cluster_name', setting: expect.stringMatching(/^safemigrate /) },
          { name: 'listen_addresses', setting: '' },
          { name: 'max_worker_processes', setting: '0' },
          { name: 'shared_buffers', setting: '16384' },
          { name: 'shared_preload_libraries', setting: '"pg_stat_statements", "sslinfo"' },
          { name: 'synchronous_standby_names', setting: '' },
        ]);
        await session.close();

        await withSession(clone.connect, async (inside) => {
          const { host, port, user, password, socketFolder, folder } = server;
          for (const place of [host, socketFolder]) {
            const text = `host=${place} port=${port} user=${user} password=${password} dbname=postgres`;
            await expect(inside.query('SELECT public.dblink_connect($1)', [text])).rejects.toMatchObject({
              code: '08001',
            });
          }
          await inside.query('CREATE TEMP TABLE seen (line text)');
          await inside.query(`COPY pg_temp.seen FROM PROGRAM 'ls ${folder}/data'`);
          expect(await inside.query('SELECT * FROM pg_temp.seen')).toEqual([]);
        });

        await withClient(publisher.url, (client) => client.query('INSERT INTO news VALUES (1)'));
        await original((client) =>
          expect.poll(async () => (await client.query('SELECT * FROM news')).rows).toEqual([{ id: 1 }]),
        );
        await withSession(clone.connect, async (inside) => {
          expect(await inside.query('SELECT * FROM public.news')).toEqual([]);
        });
        expect(await readdir(archive)).toEqual(archived);
        const reasons = clone.caveats.map(({ reason }) => reason).join('\n');
        expect(reasons).toContain('sslinfo could start jobs by itself');
        expect(reasons).toContain("the clone's shared_buffers are 128 MB, the target's 160 MB");
      });
      expect(await subscribers()).toEqual(before);
      await original(async (client) => {
        const { rows } = await client.query('SELECT slot_name FROM pg_replication_slots');
        expect(rows).toEqual([{ slot_name: 'standby' }]);
      });
    },
  );

  test('a copy with a link that leads out of it is never started', async () => {
    const fill = async (folder: string) => {
      const filled = await copyByHand(server, folder);
      const wal = path.join(folder, 'data', 'pg_wal');
      await rm(wal, { recursive: true });
      await symlink(path.join(server.folder, 'data', 'pg_wal'), wal);
      return filled;
    };
    await expect(made(async () => {}, { fill, allowExternalAccess: true })).rejects.toMatchObject({
      code: 'CLONE',
      message: expect.stringContaining(`pg_wal points to ${server.folder}/data/pg_wal`),
    });
    expect(await readdir(parent.path)).toEqual([]);
  });
});
