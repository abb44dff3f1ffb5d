import { mkdirSync, rmdirSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasSocketApart } from '../../src/clone/private/private-server.ts';
import { newRunId } from '../../src/ownership/run-id.ts';
import { runLine, safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { withoutClientPrograms } from '../helpers/client-programs.ts';
import { changedUrl } from '../helpers/cloning.ts';
import {
  fillUp,
  type LoopFileSystem,
  loopFileSystem,
  loopFileSystemObstacle,
  memoryFileSystem,
} from '../helpers/file-system.ts';
import { type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { inThisShare } from '../helpers/share.ts';

const skip =
  skipReason(await loopFileSystemObstacle('xfs')) ||
  (await withoutClientPrograms('pg_dump', 'pg_restore', 'pg_basebackup'));

describe.skipIf(skip)('a folder that cannot be used', () => {
  let disk: LoopFileSystem;
  let readOnly: LoopFileSystem;
  let full: LoopFileSystem;
  let server: PlacedServer;
  let url: string;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 900 * 2 ** 20);
    readOnly = await memoryFileSystem(64 * 1024, 'ro');
    full = await memoryFileSystem(64 * 1024);
    await fillUp(full);
    server = await placedServer(15, {
      parent: disk.folder,
      settings: { max_wal_size: '64MB', min_wal_size: '32MB', fsync: 'off' },
    });
    url = changedUrl(server.url, { database: 'shop' });
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
  }, 60_000);
  afterAll(async () => {
    await server?.stop();
    for (const each of [disk, readOnly, full]) await each?.destroy();
  });

  type Place = 'read-only' | 'full' | 'missing' | 'no folder';
  const PLACES: Readonly<Record<Place, { readonly at: () => string; readonly why: string }>> = {
    'read-only': { at: () => readOnly.folder, why: 'EROFS: read-only file system' },
    full: { at: () => full.folder, why: 'no space is left in' },
    missing: { at: () => '/proc/none', why: 'ENOENT' },
    'no folder': { at: () => '/dev/null', why: 'ENOTDIR' },
  };

  /** Reasons of the ways that doctor calls impossible. */
  async function impossible(env: NodeJS.ProcessEnv, ...args: string[]): Promise<Record<string, string>> {
    const { stdout, stderr } = await safemigrate(['doctor', '--clone', 'auto', '--format', 'json', ...args], {
      env: { DATABASE_URL: url, ...env },
    });
    expect(stdout, stderr).toMatch(/^\{/);
    const { methods } = JSON.parse(stdout) as {
      methods: { method: string; possible: boolean; reason: string; enable?: string }[];
    };
    return Object.fromEntries(
      methods
        .filter(({ method, possible }) => !possible && method !== 'external')
        .map(({ method, reason, enable }) => [method, `${reason} => ${enable}`]),
    );
  }

  /** What doctor calls impossible is refused for the same reason, with nothing touched; what it calls possible works. */
  async function expectAsDoctorSays(
    found: Record<string, string>,
    env: NodeJS.ProcessEnv,
    ways: readonly string[],
    ...args: string[]
  ): Promise<void> {
    for (const way of ways) {
      const run = await safemigrate(['--clone', way, ...args, '--', 'psql', url, '-c', 'SELECT 1'], {
        env: { DATABASE_URL: url, ...env },
      });
      expect(run.stderr).not.toContain('Internal error');
      const reason = found[way];
      expect(run.exitCode, `${way}: ${run.stderr}`).toBe(reason === undefined ? 0 : 3);
      if (reason === undefined) continue;
      expect(run.stderr).toContain(reason.split(' => ')[0]);
      expect(run.stderr).toContain('The target was not touched.');
    }
  }

  test.each(inThisShare<Place>(['read-only', 'full', 'no folder']))(
    'XDG_STATE_HOME, %s: only a way that needs no record is possible, and the report of it is not kept',
    async (place) => {
      const { at, why } = PLACES[place];
      const env = { XDG_STATE_HOME: at() };
      const found = await impossible(env);
      expect(Object.keys(found).sort()).toEqual(['basebackup', 'cluster', 'dump']);
      for (const reason of Object.values(found)) {
        expect(reason).toContain(why);
        expect(reason).toContain(at());
        expect(reason).toContain('=> set XDG_STATE_HOME to a folder that you can write to');
      }
      await expectAsDoctorSays(found, env, ['cluster']);
      const run = await safemigrate(['--clone', 'auto', '--', 'psql', url, '-c', 'SELECT 1'], {
        env: { DATABASE_URL: url, ...env },
      });
      expect(run.exitCode, run.stderr).toBe(0);
      expect(run.stderr).toMatch(/The report is not kept for `safemigrate show`: .*(EROFS|ENOSPC|ENOTDIR)/);
      for (const word of ['list', 'clean']) {
        const { exitCode, stderr } = await safemigrate([word], { env: { DATABASE_URL: url, ...env } });
        expect(exitCode, stderr).toBe(place === 'no folder' ? 2 : 0);
        if (place === 'no folder') expect(stderr).toContain('Set HOME or XDG_STATE_HOME to a folder');
      }
    },
  );

  test('HOME, read-only, without XDG_STATE_HOME: as if that were read-only', async () => {
    const env = { HOME: readOnly.folder, XDG_STATE_HOME: '' };
    const { cluster } = await impossible(env);
    expect(cluster).toContain(PLACES['read-only'].why);
    expect(cluster).toContain(readOnly.folder);
  });

  test.each(inThisShare<Place>(['read-only', 'full', 'missing']))(
    'TMPDIR, %s: only ways that need none are possible, or others with --clone-dir',
    async (place) => {
      const { at, why } = PLACES[place];
      const env = { TMPDIR: at() };
      const found = await impossible(env);
      // Beside a data directory with a long path its socket would lie in TMPDIR.
      const isFar = hasSocketApart(path.join(server.folder, `safemigrate_${newRunId()}`));
      expect(Object.keys(found).sort()).toEqual(['basebackup', ...(isFar ? ['cluster'] : []), 'dump']);
      for (const reason of [found.basebackup, found.dump]) {
        expect(reason).toContain(why);
        expect(reason).toContain(at());
        expect(reason).toContain('=> set TMPDIR to a folder of yours, or name one with --clone-dir');
      }
      await expectAsDoctorSays(found, env, ['cluster', 'basebackup', 'dump']);
      const elsewhere = path.join(disk.folder, place.slice(0, 1));
      mkdirSync(elsewhere, { mode: 0o755 });
      const args = ['--clone-dir', elsewhere];
      expect(await impossible(env, ...args)).toEqual({});
      // What the other folder is good for does not depend on why the first is not.
      if (place === 'read-only') await expectAsDoctorSays({}, env, ['basebackup', 'dump'], ...args);
      rmdirSync(elsewhere);
    },
  );

  test('TMPDIR, read-only, and a path that is too long for a socket', async () => {
    const env = { TMPDIR: readOnly.folder };
    const long = path.join(disk.folder, 'l'.repeat(90));
    mkdirSync(long, { mode: 0o755 });
    const found = await impossible(env, '--clone-dir', long);
    expect(found.cluster).toMatch(/too long for its socket.*EROFS/);
    await expectAsDoctorSays(found, env, ['cluster', 'basebackup'], '--clone-dir', long);
    rmdirSync(long);
  });

  test('the current folder, removed: exit code 2; read-only: no matter', async () => {
    const gone = temporaryFolder();
    const env = { DATABASE_URL: url, SAFEMIGRATE_CLONE: 'template' };
    const removed = await runLine(`cd '${gone}'; rmdir '${gone}'; safemigrate -- true`, { env });
    expect(removed).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('The current folder does not exist any more.'),
    });
    const command = ['psql', url, '-c', 'SELECT 1'];
    const run = await safemigrate(['--', ...command], { env, folder: readOnly.folder });
    expect(run.exitCode, run.stderr).toBe(0);
  });
});
