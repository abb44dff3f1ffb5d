import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { measureFolder, refuseWithoutSpace } from '../../../../src/clone/cluster/choose-folder.ts';
import { sizeWords } from '../../../../src/clone/cluster/describe-cluster.ts';

const GB = 1024 ** 3;

describe('the size of a copy', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'measured-'));
    await writeFile(path.join(folder, 'one'), 'x'.repeat(1_000));
    await writeFile(path.join(folder, 'two'), 'x'.repeat(500));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it('is the sum of the files', async () => {
    expect(await measureFolder(folder, true)).toEqual({
      files: 2,
      allCounted: true,
      bytes: 1_500,
      atMostBytes: 1_500,
    });
  });

  it('is never the used space of the disk, which only bounds it if counting takes too long', async () => {
    const { bytes, atMostBytes, allCounted } = await measureFolder(folder, true, () => false, -1);
    expect({ bytes, allCounted }).toEqual({ bytes: 0, allCounted: false });
    expect(atMostBytes).toBeGreaterThan(0);
    expect(() =>
      refuseWithoutSpace({ parent: folder, freeBytes: 10 * GB, totalBytes: 70 * GB }, bytes),
    ).not.toThrow();
  });

  it('is said to be at most so much if counting takes too long', () => {
    expect(sizeWords({ bytes: 2 * GB, atMostBytes: 2 * GB })).toBe('2 GB');
    expect(sizeWords({ bytes: 2 * GB, atMostBytes: 65 * GB })).toBe(
      'more than 2 GB (at most 65 GB; counting took too long)',
    );
  });
});
