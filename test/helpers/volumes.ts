import { execFile } from 'node:child_process';
import { chown, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { entryFile, readEntries } from '../../src/ownership/folder-records.ts';
import { PROGRAM, runProgram, safemigrate } from './cli.ts';
import { withClient } from './client.ts';
import type { CloningOptions } from './cloning.ts';
import { queryClone, withClusterCloning } from './cluster-cloning.ts';
import { until } from './cutting.ts';
import { fillForLoad, SUMS, startLoad } from './pgbench.ts';
import { ownFolder, type PlacedServer, type Placing, placedServer, SERVER_UID } from './placed-server.ts';
import { BALANCES, makeAccounts } from './transfers.ts';

const run = promisify(execFile);
const MB = 2 ** 20;

/** btrfs subvolumes or ZFS datasets of a test. */
export interface Volumes {
  readonly strategy: 'btrfs snapshot' | 'zfs snapshot';
  /** A folder in a volume that holds other things as well. */
  readonly shared: string;
  /** Makes a volume whose root is this folder. */
  make(folder: string): Promise<void>;
  /** All volumes and snapshots there are. */
  list(): Promise<string[]>;
  /** Several volumes of this kind are snapshotted at one moment here. */
  readonly together: boolean;
}

/** Subvolumes of a btrfs that is mounted there. */
export function btrfsVolumes(folder: string): Volumes {
  return {
    strategy: 'btrfs snapshot',
    shared: folder,
    together: false,
    make: async (volume) => void (await run('btrfs', ['subvolume', 'create', volume])),
    list: async () => {
      const { stdout } = await run('btrfs', ['subvolume', 'list', folder]);
      return [...stdout.matchAll(/ path (.*)$/gm)].map(([, name = '']) => name);
    },
  };
}

/** The ways people lay out a cluster over volumes. */
export const LAYOUTS = [
  'the data directory is a volume',
  'the data directory is a folder in a volume, and so is WAL',
  'WAL is in a volume of its own',
  'WAL is a volume within the data directory',
  'a tablespace is in a volume of its own',
] as const;
export type VolumeLayout = (typeof LAYOUTS)[number];

/** Says whether all parts are in one volume. */
export function isOneVolume(layout: VolumeLayout): boolean {
  return layout === LAYOUTS[0] || layout === LAYOUTS[1];
}

/** A server in this layout, with the accounts of transfers.ts; in the last one the table is in the tablespace. */
export async function serverIn(
  layout: VolumeLayout,
  volumes: Volumes,
  version: ServerVersion,
  more: Partial<Placing> = {},
): Promise<PlacedServer> {
  const owned = async (folder: string) => {
    await volumes.make(folder);
    await chown(folder, SERVER_UID ?? 0, SERVER_UID ?? 0);
  };
  const server = await placedServer(version, {
    ...more,
    parent: volumes.shared,
    make: async (folder, initdb) => {
      const data = path.join(folder, 'data');
      const wal = path.join(folder, 'wal');
      if (layout !== LAYOUTS[1]) await owned(data);
      if (layout === LAYOUTS[1]) await ownFolder(wal);
      if (layout === LAYOUTS[2]) await owned(wal);
      await initdb(...(layout === LAYOUTS[1] || layout === LAYOUTS[2] ? ['--waldir', wal] : []));
      if (layout !== LAYOUTS[3]) return;
      await run('mv', [path.join(data, 'pg_wal'), path.join(data, 'moved')]);
      await owned(path.join(data, 'pg_wal'));
      await run('sh', ['-c', 'mv "$1"/moved/* "$1"/pg_wal && rmdir "$1"/moved', 'sh', data]);
      await run('chmod', ['700', path.join(data, 'pg_wal')]);
    },
  });
  await makeAccounts(server.url);
  if (layout === LAYOUTS[4]) {
    const apart = path.join(server.folder, 'apart');
    await mkdir(apart, { recursive: true }).catch(() => {});
    await run('rmdir', [apart]);
    await owned(apart);
    await withClient(server.url, async (client) => {
      await client.query(`CREATE TABLESPACE apart LOCATION '${apart}'`);
      await client.query('ALTER TABLE account SET TABLESPACE apart');
    });
  }
  return server;
}

/** Clones it while pgbench works: no transaction fails, the clone is consistent and the server's own, and nothing is left. */
export async function expectHotClone(
  layout: VolumeLayout,
  volumes: Volumes,
  server: PlacedServer,
  options: CloningOptions = {},
): Promise<void> {
  await fillForLoad(server.url, 1, layout === LAYOUTS[4] ? 'apart' : undefined);
  const before = await volumes.list();
  const load = await startLoad(server.url, 3, 300);
  try {
    await withClusterCloning(server.url, options, async ({ assessment, create, sent }) => {
      expect(assessment).toMatchObject({ strategy: volumes.strategy, bytes: 0 });
      const clone = await create();
      const inBackup = !isOneVolume(layout) && !volumes.together;
      expect(sent.some(({ sql }) => sql.includes('pg_backup_start'))).toBe(inBackup);
      expect(await queryClone(clone, BALANCES)).toEqual([{ sum: 0, count: 2000 }]);
      expectBalanced(await queryClone(clone, SUMS));
      await queryClone(clone, 'UPDATE pgbench_accounts SET abalance = 7 WHERE aid < 2000');
      const unique = await clone.uniqueBytes();
      expect(unique).toBeLessThan(120 * MB);
      await expectSound(clone);
    });
  } finally {
    await load.end();
  }
  const { transactions, errors } = await load.end();
  expect(errors).toBe('');
  expect(transactions.length).toBeGreaterThan(0);
  await withClient(server.url, async (client) => expectBalanced((await client.query(SUMS)).rows));
  expect(await volumes.list()).toEqual(before);
}

/** Each transaction of pgbench adds the same to an account, a teller and a branch, and makes a row of it. */
function expectBalanced([sums]: readonly Record<string, number>[]): void {
  const { accounts, tellers, branches, history, moves } = sums ?? {};
  expect(moves).toBeGreaterThan(0);
  expect([tellers, branches, history]).toEqual([accounts, accounts, accounts]);
}

/** Checks tables and indexes with amcheck, if the server has it. */
async function expectSound(clone: Parameters<typeof queryClone>[0]): Promise<void> {
  const known = await queryClone(clone, `SELECT FROM pg_available_extensions WHERE name = 'amcheck'`);
  if (known.length === 0) return;
  await queryClone(clone, 'CREATE EXTENSION amcheck');
  expect(await queryClone(clone, `SELECT * FROM verify_heapam('pgbench_accounts')`)).toEqual([]);
  await queryClone(clone, `SELECT bt_index_check('pgbench_accounts_pkey', true)`);
}

/** It ends with its connection. */
const AT_WORK = ['sh', '-c', 'echo at work; exec psql -qXc "SELECT pg_sleep(60)" "$DATABASE_URL"'];

/** Records of clones that were written since, by their run: an attempt of a test that failed may have left others. */
export async function entriesSince(before: readonly Entry[]): Promise<Entry[]> {
  const known = new Set(before.map(fileOf));
  return (await readEntries()).filter((entry) => !known.has(fileOf(entry)));
}

type Entry = Awaited<ReturnType<typeof readEntries>>[number];
const fileOf = (entry: Entry) => ('unreadable' in entry ? entry.file : entryFile(entry.run));

/**
 * Rehearsals that are interrupted, killed, and killed with their watchdogs while the command is at work leave no volume and no snapshot:
 * the last ones after `clean`.
 */
export async function expectNothingLeft(
  { list }: Pick<Volumes, 'list'>,
  { url }: Pick<PlacedServer, 'url'>,
): Promise<void> {
  const before = await list();
  const recorded = await readEntries();
  const interrupted = async (end: (pid: number) => Promise<void>) => {
    let pid = 0;
    const atWork = async () => {
      expect((await list()).length).toBeGreaterThan(before.length);
      await end(pid);
      return '';
    };
    await runProgram([...PROGRAM, '--clone', 'cluster', '--', ...AT_WORK], {
      env: { DATABASE_URL: url },
      started: (number) => {
        pid = number;
      },
      typed: [[/at work/, atWork]],
    });
  };
  await interrupted(async (pid) => void process.kill(pid, 'SIGINT'));
  expect(await list()).toEqual(before);
  await interrupted(async (pid) => void process.kill(pid, 'SIGKILL'));
  await until('its watchdog has removed everything', async () => {
    const left = await list();
    return left.length === before.length && (await entriesSince(recorded)).length === 0;
  });
  await interrupted(async (pid) => {
    const entries = await entriesSince(recorded);
    const [entry, ...others] = entries.filter((each) => 'unreadable' in each || each.holds !== 'sockets');
    if (!entry || 'unreadable' in entry || others.length > 0) throw new Error('the clone is not recorded');
    process.kill(entry.watchdog?.pid ?? 0, 'SIGKILL');
    process.kill(pid, 'SIGKILL');
  });
  expect((await list()).length).toBeGreaterThan(before.length);
  const { stdout } = await safemigrate(['clean']);
  expect(stdout).toMatch(/^removed .*safemigrate_/m);
  expect(await list()).toEqual(before);
}
