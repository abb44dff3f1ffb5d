import { execFile, execFileSync } from 'node:child_process';
import { mkdtemp, rename, rm, symlink, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cluster } from '../../../../src/clone/cluster.ts';
import { withClient } from '../../../helpers/client.ts';
import { withCloning } from '../../../helpers/cloning.ts';
import { queryClone, withClusterCloning } from '../../../helpers/cluster-cloning.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../../../helpers/file-system.ts';
import {
  debianPrograms,
  ownFolder,
  type PlacedServer,
  placedServer,
  SERVER_UID,
} from '../../../helpers/placed-server.ts';
import { skipReason } from '../../../helpers/requirements.ts';
import { BALANCES, makeAccounts } from '../../../helpers/transfers.ts';

const MB = 1024 * 1024;
const run = promisify(execFile);

/** As Debian installs it: configuration in a folder of its own, named by the command line. */
describe("Debian's PostgreSQL 15 on XFS, with configuration and WAL elsewhere, and a link to its data directory", async () => {
  const { programs, obstacle: missing } = await debianPrograms(15);
  const obstacle = skipReason((await loopFileSystemObstacle('xfs')) ?? missing);
  let place: LoopFileSystem | undefined;
  /** On another file system. */
  let outside: string;
  let server: PlacedServer;

  beforeAll(async () => {
    if (obstacle) return;
    place = await loopFileSystem('xfs', 512 * MB);
    outside = await mkdtemp(path.join(tmpdir(), 'safemigrate-outside-'));
    await run('chown', [`${SERVER_UID}`, outside]);
    await ownFolder(path.join(outside, 'tablespace'));
    server = await placedServer(15, {
      parent: place.folder,
      programs,
      make: async (folder, initdb) => {
        await initdb('--waldir', path.join(outside, 'wal'));
        for (const name of ['postgresql.conf', 'pg_hba.conf', 'pg_ident.conf'])
          await run('mv', [path.join(folder, 'data', name), outside]);
        // A link to what a setting names; and one that stays inside.
        await symlink(path.join(outside, 'pg_hba.conf'), path.join(folder, 'data', 'pg_hba.conf'));
        await symlink('PG_VERSION', path.join(folder, 'data', 'VERSION'));
        // The server is started on a link to its folder.
        await rename(path.join(folder, 'data'), path.join(folder, 'main'));
        await symlink('main', path.join(folder, 'data'));
      },
      start: (folder) => [
        '-c',
        `config_file=${outside}/postgresql.conf`,
        '-c',
        `data_directory=${folder}/data`,
        '-c',
        `hba_file=${folder}/data/pg_hba.conf`,
        '-c',
        `ident_file=${outside}/pg_ident.conf`,
      ],
    });
    await makeAccounts(server.url);
    await withClient(server.url, async (client) => {
      await client.query(`CREATE TABLESPACE outside LOCATION '${outside}/tablespace'`);
      await client.query('CREATE TABLE placed TABLESPACE outside AS SELECT generate_series(1, 1000) AS i');
      await client.query('SET allow_in_place_tablespaces = on');
      await client.query("CREATE TABLESPACE inside LOCATION ''");
      await client.query('CREATE TABLE within TABLESPACE inside AS SELECT generate_series(1, 500) AS i');
    });
  }, 60_000);

  afterAll(async () => {
    await server?.stop();
    await place?.destroy();
    if (outside) await rm(outside, { recursive: true, force: true });
  });

  test.skipIf(obstacle)(
    'is copied with the WAL that it needs, and what is not on XFS is counted as copied in full',
    async () => {
      await withClusterCloning(server.url, {}, async ({ assessment, create }) => {
        expect(assessment.strategy).toBe('reflink');
        expect(assessment.bytes).toBeGreaterThan(40_000);
        expect(assessment.bytes).toBeLessThan(MB);
        expect(assessment.reason).toContain(`${outside}/tablespace`);
        const clone = await create();
        expect(await queryClone(clone, BALANCES)).toEqual([{ sum: 0, count: 2000 }]);
        expect(await queryClone(clone, 'SELECT count(*)::int AS n FROM placed')).toEqual([{ n: 1000 }]);
        expect(await queryClone(clone, 'SELECT count(*)::int AS n FROM within')).toEqual([{ n: 500 }]);
        await queryClone(clone, 'TRUNCATE placed');
        const [wal] = await queryClone<{ n: number }>(clone, 'SELECT count(*)::int AS n FROM pg_ls_waldir()');
        expect(wal?.n).toBeLessThan(6);
      });
      await withClient(server.url, async (client) => {
        expect((await client.query('SELECT count(*)::int AS n FROM placed')).rows).toEqual([{ n: 1000 }]);
      });
    },
  );

  test.skipIf(obstacle)('is not copied with a symbolic link that leads out', async () => {
    const link = path.join(server.folder, 'main', 'base', 'elsewhere');
    await symlink(outside, link);
    try {
      await withClusterCloning(server.url, {}, async ({ create }) => {
        await expect(create()).rejects.toMatchObject({
          code: 'CLONE',
          message: expect.stringContaining(`${link} is a symbolic link to ${outside}`),
        });
      });
      await rename(link, path.join(server.data, 'extra'));
      await withCloning(server.url, {}, async ({ context }) => {
        expect(await cluster.assess(context)).toMatchObject({
          possible: false,
          reason: expect.stringContaining('point out of the clone'),
        });
      });
    } finally {
      await unlink(link).catch(() => unlink(path.join(server.data, 'extra')));
    }
  });

  test.skipIf(obstacle)('is refused when a tablespace is made while it is copied', async () => {
    await ownFolder(path.join(outside, 'late'));
    const onSent = ({ sql }: { sql: string }) => {
      if (!sql.includes('pg_backup_stop')) return;
      const late = `CREATE TABLESPACE late LOCATION '${outside}/late'`;
      execFileSync(path.join(programs, 'psql'), ['-qX', server.url, '-c', late]);
    };
    await withClusterCloning(server.url, { onSent }, async ({ create }) => {
      await expect(create()).rejects.toMatchObject({
        code: 'CLONE',
        message: 'A tablespace was created on the server while it was copied.',
      });
    });
    await withClient(server.url, (client) => client.query('DROP TABLESPACE late'));
  });

  test.skipIf(obstacle)(
    'its clone goes where --clone-dir says, but never into the data directory',
    async () => {
      const assess = (folder: string) =>
        withCloning(server.url, { folder, maxCopyBytes: 0 }, ({ context }) => cluster.assess(context));
      expect(await assess(path.join(server.data, 'base'))).toMatchObject({
        possible: false,
        reason: expect.stringContaining('inside the data directory'),
      });
      expect(await assess(path.join(outside, 'missing'))).toMatchObject({ possible: false });
      const full = await assess(outside);
      expect(full).toMatchObject({ possible: true, strategy: 'copy' });
      expect(full.possible && full.bytes).toBeGreaterThan(20 * MB);
      expect(full.reason).toContain('created without reflink=1, or it is another file system');
      expect(await assess(place?.folder ?? '')).toMatchObject({ possible: true, strategy: 'reflink' });
    },
  );
});
