import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readdir, readFile, readlink, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { parentOf } from '../../../src/clone/cluster/recognise.ts';
import { findSandbox } from '../../../src/clone/private/sandbox.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { stampOf } from '../../../src/ownership/process-stamp.ts';
import { withClient } from '../../helpers/client.ts';
import { changedUrl } from '../../helpers/cloning.ts';
import { ownServer, programsOf } from '../../helpers/own-server.ts';
import {
  copyByHand,
  enterableFolder,
  type PrivateClone,
  withPrivateClone,
  withSession,
} from '../../helpers/private-clone.ts';
import { skipReason } from '../../helpers/requirements.ts';
import { NEWEST } from '../../helpers/servers.ts';

const programs = await programsOf(18);
const nobody = { uid: 65_534, gid: 65_534 };
const { containment } = await findSandbox(nobody, { programs, libraries: [], hidden: [] });
const open = skipReason(
  containment === 'sandbox' ? null : 'this machine does not permit the namespaces of a sandbox',
);

let parent: Awaited<ReturnType<typeof enterableFolder>>;
beforeAll(async () => {
  parent = await enterableFolder();
});
afterAll(() => parent.remove());

/** An original that archives, replicates, subscribes and preloads a library that could start jobs. */
describe.each(NEWEST)('PostgreSQL %d', (version) => {
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
          const seen = async (program: string) => {
            await inside.query('TRUNCATE pg_temp.seen');
            await inside.query(`COPY pg_temp.seen FROM PROGRAM $$(${program}) 2>&1 || true$$`);
            const rows = await inside.query<{ line: string }>('SELECT * FROM pg_temp.seen');
            return rows.map(({ line }) => line).join('\n');
          };
          const postmaster = await numberIn(path.join(folder, 'data', 'postmaster.pid'));
          expect(await seen('id -u')).toBe('65534');
          expect(await seen(`kill -0 ${postmaster}`)).toContain('No such process');
          expect(await seen(`ls /proc/${postmaster}/root`)).toContain('No such file');
          expect((await seen('ls /proc')).match(/^\d+$/gm)?.map(Number)).not.toContain(postmaster);
          expect(await seen('ls /proc/1/root')).toContain('Permission denied');
          for (const place of [`${folder}/data/PG_VERSION`, socketFolder, `${server.folder}/data`])
            expect(await seen(`ls ${place}`)).toContain('No such file');
          expect(await seen(`touch ${folder}/data/written`)).toContain('No such file');
          expect(await seen('touch /usr/written /etc/written /opt/written')).toMatch(
            /^(.*Read-only.*\n?){3}$/,
          );
          expect(await seen('echo written > /tmp/written && cat /tmp/written && ls /dev/shm')).toMatch(
            /^written/,
          );
          expect(await seen('ipcs -m -q -s')).not.toMatch(/^0x(?!0*\b).* 65534 /m);
        });
        expect(await readdir('/tmp')).not.toContain('written');
        expect(await readdir(path.join(server.folder, 'data'))).not.toContain('written');

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

  test.skipIf(open).each(['the server', 'the first process', 'the program that made the namespace'])(
    'everything in its namespace ends with %s',
    async (which) => {
      const failed: string[] = [];
      const fail = ({ message }: Error) => void failed.push(message);
      await made(
        async ({ clone, folder }) => {
          await withSession(clone.connect, (inside) =>
            inside.query(
              `COPY (SELECT) TO PROGRAM 'cd /; setsid sleep 600 > /dev/null 2>&1 & cat > /dev/null'`,
            ),
          );
          const server = await numberIn(path.join(folder, 'server.pid'));
          const [first = 0, ...others] = await namespaceOf(server);
          expect(others.length).toBeGreaterThan(5);
          const outside = (await parentOf(first)) ?? 0;
          process.kill({ 'the server': server, 'the first process': first }[which] ?? outside, 'SIGKILL');
          const living = async () =>
            (await Promise.all([first, ...others, outside].map(stampOf))).filter(Boolean);
          await expect.poll(living).toEqual([]);
          await expect.poll(() => failed).toEqual([expect.stringContaining('The clone was lost')]);
        },
        { fail },
      );
      expect(await readdir(parent.path)).toEqual([]);
    },
  );

  test.skipIf(open || process.getuid?.() !== 0)('an ordinary user gets the same sandbox', async () => {
    // What a table of mounts would take for the end of a path.
    const folder = await mkdtemp(path.join(parent.path, 'its own\\'));
    await chmod(folder, 0o777);
    vi.spyOn(process, 'getuid').mockReturnValue(nobody.uid);
    const sandbox = await findSandbox(nobody, { programs, libraries: [], hidden: [] });
    vi.restoreAllMocks();
    expect(sandbox).toMatchObject({ containment: 'sandbox', caveats: [] });
    const script = `id -u; pwd; cat /proc/self/status; ls /proc; ls /sys/class/net ${server.folder} 2>&1; kill -0 ${process.pid} 2>&1; true`;
    const words = [...sandbox.through({ folder, socketFolder: `${folder}/socket` }), 'sh', '-c', script];
    const asNobody = ['--reuid=65534', '--regid=65534', '--clear-groups'];
    const { stdout } = await promisify(execFile)('setpriv', [...asNobody, ...words]);
    expect(stdout).toMatch(`65534\n${folder}\n`);
    expect(stdout).toMatch(/^CapEff:\s+0+$/m);
    expect(stdout).not.toMatch(new RegExp(`^${process.pid}$`, 'm'));
    expect(stdout).toContain(`cannot access '${server.folder}'`);
    expect(stdout).toContain('No such process');
    await rm(folder, { recursive: true });
  });

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

async function numberIn(file: string): Promise<number> {
  return Number.parseInt(await readFile(file, 'utf8'), 10);
}

/** Lists the processes in the PID namespace of this one, oldest first. */
async function namespaceOf(pid: number): Promise<number[]> {
  const namespace = (number: string) => readlink(`/proc/${number}/ns/pid`).catch(() => '');
  const wanted = await namespace(String(pid));
  const numbers = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    numbers.map(async (number) => ((await namespace(number)) === wanted ? [number] : [])),
  );
  return found
    .flat()
    .map(Number)
    .sort((one, other) => one - other);
}
