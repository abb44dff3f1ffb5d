import { execFile } from 'node:child_process';
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { safemigrate } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { until } from '../helpers/cutting.ts';
import { loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { ownFolder, type PlacedServer, placedServer, SERVER_UID } from '../helpers/placed-server.ts';
import { archivingIn, expectRowsOfThatTime, NOTES, namingPrograms } from '../helpers/point-in-time.ts';
import { enterableFolder } from '../helpers/private-clone.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { majorOf } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';
import { btrfsVolumes, LAYOUTS, serverIn } from '../helpers/volumes.ts';

const run = promisify(execFile);

const SHARE = inThisShare([15, 18] as const);

describe.each(SHARE)('a rehearsal as of another time, PostgreSQL %d', async (version) => {
  const programs = await namingPrograms(version);
  let place: Awaited<ReturnType<typeof enterableFolder>>;
  let server: PlacedServer;
  let archive: string;
  let backup: string;
  /** Between the rows `early` and `late`. */
  let moment: string;

  beforeAll(async () => {
    place = await enterableFolder();
    archive = path.join(place.path, 'archive');
    backup = path.join(place.path, 'backup');
    await ownFolder(archive);
    server = await placedServer(version, {
      parent: place.path,
      settings: archivingIn(archive),
    });
    await withClient(server.url, async (client) => {
      const add = (note: string) => client.query('INSERT INTO event (note) VALUES ($1)', [note]);
      await client.query('CREATE TABLE event (id serial PRIMARY KEY, note text)');
      await add('before');
      await client.query("SELECT pg_backup_start('test', true)");
      await run('cp', ['-a', server.data, backup]);
      const { rows } = await client.query<{ label: string }>(
        'SELECT labelfile AS label FROM pg_backup_stop(false)',
      );
      await run('sh', ['-c', 'rm -rf "$1"/postmaster.* "$1"/pg_wal/*', 'sh', backup]);
      await writeFile(path.join(backup, 'backup_label'), rows[0]?.label ?? '');
      if (SERVER_UID !== undefined)
        await run('chown', [`${SERVER_UID}:${SERVER_UID}`, path.join(backup, 'backup_label')]);
      await add('early');
      await client.query('SELECT pg_switch_wal()');
      await add('early too');
      const now = await client.query<{ now: string }>('SELECT clock_timestamp()::text AS now');
      moment = now.rows[0]?.now ?? '';
      await add('late');
      const last = await client.query<{ file: string }>('SELECT pg_walfile_name(pg_switch_wal()) AS file');
      await until('all WAL is archived', async () =>
        (await readdir(archive)).includes(last.rows[0]?.file ?? ''),
      );
    });
  }, 60_000);

  afterAll(async () => {
    await server?.stop();
    await place?.remove();
  });

  const at = (time: string, ...more: string[]) => [...['--clone-at', time, '--base-backup', backup], ...more];
  const auto = () => ({
    SAFEMIGRATE_CLONE: 'auto',
    SAFEMIGRATE_RESTORE_COMMAND: `cp ${archive}/%f "%p"`,
    ...programs,
  });

  test('sees the rows of that time and no later ones, and says so', async () => {
    const { report, stderr } = await rehearse(server.url, NOTES, { args: at(moment), env: auto() });
    expect(stderr).toContain('before,early,early too');
    expect(stderr).not.toContain(',late');
    expect(report.clone).toMatchObject({
      method: 'archive',
      isolation: 'own-cluster',
      containment: 'sandbox',
    });
    expect(report.caveats.map(({ reason }) => reason).join()).toContain(`as of ${moment}`);
    expect(report.target).toMatchObject({ changes: [], touched: [] });
  });

  test('goes as far as the archive with `latest`', async () => {
    const { report, stderr } = await rehearse(server.url, NOTES, { args: at('latest'), env: auto() });
    expect(stderr).toContain('before,early,early too,late');
    expect(report.clone.method).toBe('archive');
  });

  test.each([['the moment'], ['latest']])(
    'names the WAL file that is missing for %s',
    async (time) => {
      const files = (await readdir(archive)).filter((name) => /^[0-9A-F]{24}$/.test(name)).sort();
      const gone = files.at(-1) ?? '';
      await rename(path.join(archive, gone), path.join(place.path, gone));
      try {
        const words = at(time === 'latest' ? time : moment, '--', ...NOTES);
        const { exitCode, stderr } = await safemigrate(words, {
          env: { DATABASE_URL: server.url, ...auto() },
        });
        expect(exitCode).toBe(3);
        expect(stderr).toContain(`The archive has no WAL file ${gone}`);
        expect(stderr).toContain('No such file or directory');
        expect((await readdir(place.path)).filter((name) => name.startsWith('safemigrate_'))).toEqual([]);
      } finally {
        await rename(path.join(place.path, gone), path.join(archive, gone));
      }
    },
    120_000,
  );

  test('is refused on what is no base backup of the target, and without a command', async () => {
    const other = path.join(place.path, 'other');
    await mkdir(path.join(other, 'global'), { recursive: true });
    await writeFile(path.join(other, 'PG_VERSION'), `${majorOf(version)}\n`);
    await writeFile(path.join(other, 'global', 'pg_control'), Buffer.alloc(8192, 7));
    const env = { DATABASE_URL: server.url, ...auto() };
    const strange = await safemigrate(
      [...at('latest', '--base-backup', other).slice(4), '--clone-at', 'latest', '--', ...NOTES],
      { env },
    );
    expect(strange.exitCode, strange.stderr).toBe(3);
    expect(strange.stderr).toContain('is of another cluster than the target');
    const without = await safemigrate(['--clone-at', 'latest', '--base-backup', backup, '--', ...NOTES], {
      env: { DATABASE_URL: server.url, SAFEMIGRATE_CLONE: 'auto', ...programs },
    });
    expect(without.stderr).toContain("SAFEMIGRATE_RESTORE_COMMAND='cp /archive/%f %p'");
    const alone = await safemigrate(['--clone-at', 'latest', '--', ...NOTES], { env });
    expect(alone.exitCode).toBe(2);
    expect(alone.stderr).toContain('--clone-at needs --base-backup');
    const applied = await safemigrate(['apply', '--clone-at', 'latest', '--yes', '--', ...NOTES], { env });
    expect(applied.exitCode).toBe(2);
    expect(applied.stderr).toContain('--clone-at is an option of a rehearsal');
    await rm(other, { recursive: true });
  });
});

describe('a snapshot of a file system instead of a base backup', async () => {
  const obstacle = skipReason(await loopFileSystemObstacle('btrfs'));

  test.skipIf(obstacle)(
    'is recovered to a later time',
    async () => {
      const disk = await loopFileSystem('btrfs', 900 * 2 ** 20);
      const archive = path.join(disk.folder, 'archive');
      await ownFolder(archive);
      const server = await serverIn(LAYOUTS[0], btrfsVolumes(disk.folder), 18, {
        settings: archivingIn(archive),
      });
      try {
        await expectRowsOfThatTime(server, archive, async () => {
          const snapshot = path.join(disk.folder, 'snapshot');
          await run('btrfs', ['subvolume', 'snapshot', '-r', server.data, snapshot]);
          return ['--base-backup', snapshot, '--clone-dir', disk.folder];
        });
      } finally {
        await server.stop();
        await disk.destroy();
      }
    },
    60_000,
  );
});
