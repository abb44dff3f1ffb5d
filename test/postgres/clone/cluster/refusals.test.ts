import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Copier } from '../../../../src/clone/cluster/copier.ts';
import { copyWal } from '../../../../src/clone/cluster/fill.ts';
import { recogniseDataDirectory } from '../../../../src/clone/cluster/recognise.ts';
import { readSourceServer, type SourceServer } from '../../../../src/clone/cluster/source-server.ts';
import { cluster } from '../../../../src/clone/cluster.ts';
import type { Assessment, CloneContext, Possible } from '../../../../src/clone/method.ts';
import type { ServerVersion } from '../../../../src/local-server/binaries.ts';
import { openSession } from '../../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../../src/postgres/connection/environment.ts';
import type { Session } from '../../../../src/postgres/connection/session.ts';
import { withClient } from '../../../helpers/client.ts';
import { changedUrl, withCloning } from '../../../helpers/cloning.ts';
import { loopFileSystem, loopFileSystemObstacle } from '../../../helpers/file-system.ts';
import { type PlacedServer, placedServer, SERVER_UID } from '../../../helpers/placed-server.ts';
import { skipReason } from '../../../helpers/requirements.ts';

const MB = 2 ** 20;

const assess = (url: string, change: Partial<CloneContext> = {}): Promise<Assessment> =>
  withCloning(url, {}, ({ context }) => cluster.assess({ ...context, ...change }));

async function facts<T>(
  server: PlacedServer,
  version: ServerVersion,
  use: (facts: SourceServer, session: Session) => Promise<T>,
): Promise<T> {
  const session = await openSession(parseSettings(server.url, readEnvironment({}, '/')), { purpose: 'test' });
  try {
    return await use(await readSourceServer(session, version * 10_000, []), session);
  } finally {
    await session.close();
  }
}

describe('the data directory', () => {
  let one: PlacedServer;
  let other: PlacedServer;

  beforeAll(async () => {
    [one, other] = await Promise.all([
      placedServer(18, { parent: tmpdir() }),
      placedServer(18, { parent: tmpdir() }),
    ]);
  }, 60_000);
  afterAll(async () => {
    await Promise.all([one?.stop(), other?.stop()]);
  });

  test('is recognised with its owner and its process', async () => {
    await facts(one, 18, async (server) => {
      expect(await recogniseDataDirectory(server)).toEqual({
        folder: one.data,
        owner: { uid: SERVER_UID ?? process.getuid?.(), gid: expect.any(Number) },
        postmasterPid: expect.any(Number),
      });
    });
  });

  test("is not taken for the server's own where it only stands under the same name", async () => {
    await facts(one, 18, async (server) => {
      const there = { ...server, dataDirectory: other.data };
      await expect(recogniseDataDirectory(there)).rejects.toThrow('holds another cluster');
      // As a standby, or a copy, of the same cluster would look.
      const alike = { ...there, systemIdentifier: null };
      await expect(recogniseDataDirectory(alike)).rejects.toThrow('is served by another process');
      await expect(recogniseDataDirectory({ ...alike, port: other.port })).rejects.toThrow(
        'is served by another process',
      );
      const nowhere = { ...server, dataDirectory: '/nowhere/data' };
      await expect(recogniseDataDirectory(nowhere)).rejects.toThrow(
        'this machine has no folder /nowhere/data',
      );
      const empty = await mkdtemp(path.join(tmpdir(), 'safemigrate-empty-'));
      await expect(recogniseDataDirectory({ ...server, dataDirectory: empty })).rejects.toThrow(
        'not the data directory of a running server',
      );
      await rm(empty, { recursive: true });
    });
  });

  test('is copied in full on a file system that shares no blocks, and its size is told', async () => {
    const assessment = await assess(one.url);
    expect(assessment).toMatchObject({ possible: true, strategy: 'copy', isolation: 'own-cluster' });
    const databases = await withClient(one.url, async (client) => {
      const { rows } = await client.query<{ bytes: string }>(
        'SELECT sum(pg_database_size(oid)) AS bytes FROM pg_database',
      );
      return Number(rows[0]?.bytes);
    });
    const { bytes } = assessment as Possible;
    expect(databases).toBeGreaterThan(20 * MB);
    expect(bytes).toBeGreaterThan(databases);
    // Beside them there is what belongs to all of them.
    expect(bytes).toBeLessThan(databases + 3 * MB);
    expect(assessment.reason).toMatch(/are copied in full, because .*cannot share blocks/);
  });
});

describe.each([18, 14] as const)('a role on PostgreSQL %i', (version) => {
  let server: PlacedServer;

  beforeAll(async () => {
    server = await placedServer(version, { parent: tmpdir() });
    await withClient(server.url, (client) => client.query('CREATE ROLE deployer LOGIN'));
  }, 60_000);
  afterAll(() => server?.stop());

  test('learns at once all that it lacks, and then can', async () => {
    const url = changedUrl(server.url, { user: 'deployer' });
    const lacking = await assess(url);
    const grants = lacking.possible ? [] : (lacking.enable ?? '').match(/GRANT .*;/g);
    await withClient(server.url, (client) => client.query(grants?.join(' ') ?? ''));
    expect(await assess(url)).toMatchObject({ possible: true });
    expect(grants).toEqual([
      'GRANT pg_read_all_settings TO "deployer";',
      expect.stringMatching(/^GRANT EXECUTE ON FUNCTION .*(backup_start|start_backup).* TO "deployer";$/),
    ]);
    await withCloning(url, {}, async ({ context, scope }) => {
      const assessment = await cluster.assess(context);
      if (!assessment.possible) throw new Error(assessment.reason);
      const clone = await cluster.create(context, assessment, scope);
      expect(clone.connect.user).toBe('deployer');
    });
  });
});

test('WAL that the server has removed meanwhile is missed before anything is started on the copy', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'safemigrate-wal-'));
  const wal = path.join(folder, 'original');
  await mkdir(wal);
  const segment = (number: number) => `00000001000000000000000${number}`;
  const { signal } = new AbortController();
  const copier = new Copier({ share: false, folder, owner: null, maxCopyBytes: MB, signal });
  const copy = async (name: string, lsn: string): Promise<string[]> => {
    const to = path.join(folder, name, 'data', 'pg_wal');
    await mkdir(to, { recursive: true });
    const end = { lsn, label: `START WAL LOCATION: 0/2000028 (file ${segment(2)})\n` };
    await copyWal({ wal }, { walSegmentBytes: 16 * MB }, end, path.join(folder, name), copier);
    return (await readdir(to)).sort();
  };
  await writeFile(path.join(wal, segment(3)), 'three');
  await expect(copy('without the first', '0/3000100')).rejects.toMatchObject({
    code: 'CLONE',
    message: expect.stringContaining(`WAL that the copy needs (from ${segment(2)} on)`),
  });
  await writeFile(path.join(wal, segment(2)), 'two');
  await expect(copy('without the last', '0/4000100')).rejects.toMatchObject({ code: 'CLONE' });
  expect(await copy('whole', '0/3000100')).toEqual([segment(2), segment(3), 'archive_status']);
  await rm(folder, { recursive: true });
});

describe('a data directory that is itself a mount point', async () => {
  const obstacle = skipReason(await loopFileSystemObstacle('xfs'));

  test.skipIf(obstacle)('has no place beside it for a clone, unless one is named', async () => {
    const disk = await loopFileSystem('xfs', 512 * MB);
    let server: PlacedServer | undefined;
    try {
      server = await placedServer(18, {
        parent: tmpdir(),
        make: async (folder, initdb) => {
          const { execFileSync } = await import('node:child_process');
          const data = path.join(folder, 'data');
          execFileSync('mkdir', [data]);
          execFileSync('mount', ['--bind', disk.folder, data]);
          execFileSync('sh', ['-c', `chown ${SERVER_UID} "$1"; chmod 700 "$1"`, 'sh', data]);
          await initdb();
        },
      });
      expect(await assess(server.url)).toMatchObject({
        possible: false,
        reason: expect.stringContaining('is a mount point'),
        enable: expect.stringContaining('--clone-dir'),
      });
    } finally {
      const { execFileSync } = await import('node:child_process');
      if (server) {
        execFileSync('umount', ['-l', server.data]);
        await server.stop();
      }
      await disk.destroy();
    }
  });
});
