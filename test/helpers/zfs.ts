import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { access, chmod, mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { until } from './cutting.ts';
import type { PlacedServer } from './placed-server.ts';
import type { Volumes } from './volumes.ts';

const run = promisify(execFile);

/** @returns why there is no ZFS here, for skipReason(); null if there is one, in the kernel or in user space. */
export async function zfsObstacle(): Promise<string | null> {
  if (process.getuid?.() !== 0) return 'ZFS needs root';
  if (await answers()) return null;
  for (const needed of ['/usr/sbin/zfs-fuse', '/dev/fuse']) {
    const missing = await access(needed).then(
      () => false,
      () => true,
    );
    if (missing) return `${needed} is missing (package zfs-fuse), and the kernel has no ZFS`;
  }
  return null;
}

async function answers(): Promise<boolean> {
  return run('zpool', ['list', '-H']).then(
    () => true,
    () => false,
  );
}

export interface Pool extends Volumes {
  readonly name: string;
  /** Runs `zfs` with these words. */
  zfs(...words: string[]): Promise<string>;
  /** Runs `zpool` with these words, and the name of the pool. */
  zpool(...words: string[]): Promise<string>;
  /** Stops these servers, and destroys all that was made in the pool. */
  stop(...servers: PlacedServer[]): Promise<void>;
  destroy(): Promise<void>;
}

/** ZFS in user space, which ends with this process however that ends: it would keep pools that the next run of tests sees. */
const DAEMON = ['--pdeathsig', 'TERM', 'zfs-fuse', '--no-daemon'];

/** A pool in a file, of a ZFS in user space unless the kernel has one; names of datasets have spaces. */
export async function zfsPool(sizeBytes: number): Promise<Pool> {
  const folder = await mkdtemp(path.join(tmpdir(), 'safemigrate-zfs-'));
  await chmod(folder, 0o755);
  const daemon = (await answers()) ? undefined : spawn('setpriv', DAEMON, { stdio: 'ignore' });
  await until('ZFS answers', answers);
  await destroyStalePools();
  const name = `safemigrate${process.pid}${randomBytes(2).toString('hex')}`;
  const image = path.join(folder, 'image');
  const shared = path.join(folder, 'shared');
  await writeFile(image, '');
  await truncate(image, sizeBytes);
  // Without a file that lists it, no other daemon opens it again after this one was killed.
  await run('zpool', ['create', '-o', 'cachefile=none', '-m', shared, name, image]);
  await chmod(shared, 0o1777);
  const zfs = async (...words: string[]) => (await run('zfs', words)).stdout.trim();
  let count = 0;
  return {
    name,
    shared,
    strategy: 'zfs snapshot',
    zfs,
    zpool: async (...words) => (await run('zpool', [...words, name])).stdout.trim(),
    together: await zfs('version').then(
      () => true,
      () => false,
    ),
    make: async (volume) => {
      count += 1;
      await mkdir(volume, { recursive: true });
      await zfs('create', '-o', `mountpoint=${volume}`, `${name}/volume ${count}`);
    },
    list: async () => (await zfs('list', '-H', '-t', 'all', '-o', 'name', '-r', name)).split('\n'),
    stop: async (...servers) => {
      // Their folders cannot be removed while volumes are mounted there, and these are busy until they have ended.
      const stopping = Promise.all(servers.map((server) => server.stop()));
      await until('its volumes are destroyed', async () => {
        const names = await zfs('list', '-H', '-o', 'name', '-r', name);
        const volumes = names.split('\n').filter((each) => /^[^/]*\/volume \d+$/.test(each));
        for (const each of volumes) await zfs('destroy', '-r', each).catch(() => {});
        return volumes.length === 0;
      });
      await stopping;
    },
    destroy: async () => {
      await until('the pool is destroyed', () =>
        run('zpool', ['destroy', '-f', name]).then(
          () => true,
          () => false,
        ),
      );
      if (daemon) {
        const ended = once(daemon, 'exit');
        daemon.kill('SIGTERM');
        await ended;
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const OURS = /^safemigrate(\d+)[0-9a-f]{4}$/;

/** Destroys the pools of processes that have ended: of test runs that were killed. */
async function destroyStalePools(): Promise<void> {
  const { stdout } = await run('zpool', ['list', '-H', '-o', 'name']);
  for (const name of stdout.split('\n')) {
    const pid = OURS.exec(name)?.[1];
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue;
    await run('zpool', ['destroy', '-f', name]);
  }
}
