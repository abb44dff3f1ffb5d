import { access, constants, copyFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { loopFileSystem, loopFileSystemObstacle } from '../../helpers/file-system.ts';
import { skipReason } from '../../helpers/requirements.ts';
import { NEWEST } from '../../helpers/servers.ts';

describe('a temporary database', () => {
  test.each(NEWEST)('of %i may have any name, and is gone after drop', async (version) => {
    const name = `it's "a/b"?#%41 🐘 ${version}`;
    const { url, drop } = await temporaryDatabase(version, { name, sql: 'CREATE TABLE a (b int)' });
    const seen = await withClient(url, (client) =>
      client.query("SELECT current_database() AS name, to_regclass('a') IS NOT NULL AS made"),
    );
    expect(seen.rows).toEqual([{ name, made: true }]);
    await drop();
    await expect(withClient(url, async () => {})).rejects.toMatchObject({ code: '3D000' });
  });
});

const KINDS = [
  ['xfs', 320],
  ['btrfs', 128],
  ['ext4', 16],
] as const;

describe.each(KINDS)('%s on a loop device', async (kind, sizeMiB) => {
  const skipped = skipReason(await loopFileSystemObstacle(kind));
  test.skipIf(skipped)(kind === 'ext4' ? 'copies no extents' : 'shares extents between files', async () => {
    const { folder, destroy } = await loopFileSystem(kind, sizeMiB * 2 ** 20);
    try {
      const file = path.join(folder, 'file');
      await writeFile(file, 'x'.repeat(100_000));
      const clone = copyFile(file, path.join(folder, 'clone'), constants.COPYFILE_FICLONE_FORCE);
      if (kind === 'ext4') await expect(clone).rejects.toThrow();
      else await expect(clone).resolves.toBeUndefined();
    } finally {
      await destroy();
    }
    await expect(access(folder)).rejects.toThrow('ENOENT');
  });
});
