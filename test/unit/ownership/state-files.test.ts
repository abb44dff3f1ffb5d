import { chmodSync, chownSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';
import { namesIn, readStateFiles, writeStateFile } from '../../../src/ownership/state-files.ts';
import { temporaryFolder } from '../../helpers/cli.ts';

const STATE = z.object({ run: z.string() });

function folderWith(content: string): { folder: string; file: string } {
  const folder = path.join(temporaryFolder(), 'safemigrate', 'clones');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = path.join(folder, 'a.json');
  writeFileSync(file, content, { mode: 0o600 });
  return { folder, file };
}

describe('a state file', () => {
  test('is read if it is this user’s own', async () => {
    const { folder } = folderWith('{"run":"a"}\n');
    expect(await readStateFiles(folder, STATE)).toEqual([{ run: 'a' }]);
  });

  test('is ignored with the reason if others may write it', async () => {
    const { folder, file } = folderWith('{"run":"a"}\n');
    chmodSync(file, 0o666);
    expect(await readStateFiles(folder, STATE)).toEqual([
      { file, unreadable: expect.stringContaining('may be written by other users') },
    ]);
  });

  test.each([0, 1])('is ignored if others may write to the folder %i levels above it', async (levels) => {
    const { folder } = folderWith('{"run":"a"}\n');
    const writable = levels === 0 ? folder : path.dirname(folder);
    chmodSync(writable, 0o777);
    expect(await readStateFiles(folder, STATE)).toMatchObject([
      { unreadable: expect.stringContaining(`${writable} may be written by other users`) },
    ]);
    expect(await namesIn(folder)).toEqual([]);
    await expect(writeStateFile(path.join(folder, 'b.json'), {})).rejects.toMatchObject({
      code: 'CONFIGURATION',
    });
  });

  // Only root can give a file away.
  test.each(process.geteuid?.() === 0 ? [65534] : [])(
    'is ignored by root if it is that of the user %i',
    async (id) => {
      const { folder, file } = folderWith('{"run":"a"}\n');
      chownSync(file, id, id);
      expect(await readStateFiles(folder, STATE)).toMatchObject([
        { file, unreadable: expect.stringContaining(`belongs to the user with the id ${id}`) },
      ]);
      chownSync(folder, id, id);
      expect(await readStateFiles(folder, STATE)).toMatchObject([{ file: folder }]);
    },
  );
});
