import { execFile } from 'node:child_process';
import { rm, statfs, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { template } from '../../../src/clone/template.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { withClient } from '../../helpers/client.ts';
import { changedUrl, withCloning } from '../../helpers/cloning.ts';
import {
  type FileSystemKind,
  type LoopFileSystem,
  loopFileSystem,
  loopFileSystemObstacle,
} from '../../helpers/file-system.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { skipReason } from '../../helpers/requirements.ts';

const MB = 1024 * 1024;
const FILL = `CREATE TABLE filler AS SELECT repeat(md5(i::text), 30) AS text FROM generate_series(1, 100000) i`;

async function used(folder: string): Promise<number> {
  const { blocks, bfree, bsize } = await statfs(folder);
  return (blocks - bfree) * bsize;
}

describe.for<FileSystemKind>(['xfs', 'btrfs', 'ext4'])('PostgreSQL 18 on %s', async (kind) => {
  const obstacle = skipReason(await loopFileSystemObstacle(kind));
  let place: LoopFileSystem | undefined;
  let link: string | undefined;
  let server: Server;
  let url: string;

  beforeAll(async () => {
    if (obstacle) return;
    place = await loopFileSystem(kind, 1500 * MB);
    // Mounts know nothing of symbolic links: behind one, /tmp would be taken for where the data is.
    link = path.join(tmpdir(), `safemigrate-link-${process.pid}-${kind}`);
    await symlink(place.folder, link);
    const parent = kind === 'xfs' ? link : place.folder;
    server = await ownServer(18, { parent, settings: { max_wal_size: '200MB' } });
    url = changedUrl(server.url, { database: 'app' });
    await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
    await withClient(url, async (client) => {
      await client.query(FILL);
      await client.query('CHECKPOINT');
    });
  }, 60_000);

  afterAll(async () => {
    await server?.stop();
    if (link) await rm(link);
    await place?.destroy();
  });

  test.skipIf(obstacle)(
    kind === 'ext4' ? 'a clone is a copy, and called one' : 'a clone shares its blocks',
    async () => {
      const folder = place?.folder ?? '';
      await withCloning(url, {}, async ({ make, assess, context, sent }) => {
        const { sizeBytes } = context.target.database;
        expect(sizeBytes).toBeGreaterThan(100 * MB);
        const assessment = await assess();
        const before = await used(folder);
        const clone = await make();
        await withClient(server.url, (client) => client.query('CHECKPOINT'));
        const grown = (await used(folder)) - before;
        if (kind === 'ext4') {
          expect(clone.strategy).toMatch(/^(copy|wal_log)$/);
          expect(clone.reason).toContain('ext4 cannot share blocks');
          expect(sent.some(({ sql }) => sql.includes('file_copy_method = clone'))).toBe(false);
          expect(assessment.bytes).toBe(sizeBytes);
          expect(grown).toBeGreaterThan(sizeBytes * 0.9);
        } else {
          expect(clone.strategy).toBe('clone');
          expect(sent.some(({ sql }) => sql === 'SET file_copy_method = clone')).toBe(true);
          expect(assessment.bytes).toBe(0);
          expect(grown).toBeLessThan(sizeBytes * 0.2);
        }
      });
    },
  );

  if (kind !== 'ext4') return;
  test.skipIf(obstacle)(
    'a disk with no room for a copy is refused beforehand, and where it fills up meanwhile nothing is left',
    async () => {
      const folder = place?.folder ?? '';
      await withCloning(url, {}, async ({ make, assess, context, scope, sent }) => {
        const assessment = await assess();
        const { bavail, bsize } = await statfs(folder);
        await promisify(execFile)('fallocate', [
          '-l',
          String(bavail * bsize - 60 * MB),
          path.join(folder, 'ballast'),
        ]);
        await expect(make()).rejects.toMatchObject({
          code: 'CLONE',
          message: expect.stringMatching(/a copy takes .* are free on the server's disk/),
        });
        expect(sent.some(({ sql }) => sql.startsWith('CREATE'))).toBe(false);
        await expect(
          template.create(context, { ...assessment, strategy: 'copy' }, scope),
        ).rejects.toMatchObject({
          code: 'DISK',
          sqlstate: '53100',
        });
      });
      await withClient(server.url, async (client) => {
        const { rows } = await client.query("SELECT 1 FROM pg_database WHERE datname LIKE 'app_%'");
        expect(rows).toEqual([]);
      });
    },
  );
});
