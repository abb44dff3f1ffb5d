import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { isWritten, makeSparseRelation } from '../../../src/observe/checks/sparse-relation.ts';
import { temporaryFolder } from '../../helpers/cli.ts';

const BLOCK = 8192;
const SEGMENT = 4;

const relation = () => {
  const file = path.join(temporaryFolder(), '16384');
  writeFileSync(file, Buffer.concat([Buffer.alloc(BLOCK, 7), Buffer.alloc(BLOCK, 8)]));
  return file;
};
const make = (file: string, blocks: number) =>
  makeSparseRelation(file, { blockBytes: BLOCK, blocks, blocksOfSegment: SEGMENT });

test('has the first block of the relation, files of a segment each, and takes no space', async () => {
  const file = relation();
  const { node, remove } = await make(file, 2 * SEGMENT + 1);
  const first = path.join(path.dirname(file), String(node));
  expect([first, `${first}.1`, `${first}.2`].map((each) => statSync(each).size / BLOCK)).toEqual([4, 4, 1]);
  expect(readFileSync(first).subarray(0, BLOCK)).toEqual(Buffer.alloc(BLOCK, 7));
  expect(
    readFileSync(first)
      .subarray(BLOCK)
      .some((byte) => byte !== 0),
  ).toBe(false);
  expect(statSync(`${first}.1`).blocks).toBe(0);
  await remove();
  expect(readdirSync(path.dirname(file))).toEqual(['16384']);
});

test('leaves files that are there as they are', async () => {
  const file = relation();
  const [one, other] = [await make(file, 1), await make(file, 1)];
  expect(other.node).toBe(one.node - 1);
  writeFileSync(path.join(path.dirname(file), `${other.node - 1}.1`), 'theirs');
  await expect(make(file, SEGMENT + 1)).rejects.toMatchObject({ code: 'EEXIST' });
  expect(readFileSync(path.join(path.dirname(file), `${other.node - 1}.1`), 'utf8')).toBe('theirs');
  expect(readdirSync(path.dirname(file)).sort()).toEqual(
    ['16384', String(one.node), String(other.node), `${other.node - 1}.1`].sort(),
  );
});

test('an index that the server still holds in memory is told by its empty first block', async () => {
  const file = relation();
  expect(await isWritten(file, BLOCK)).toBe(true);
  writeFileSync(file, Buffer.alloc(BLOCK));
  expect(await isWritten(file, BLOCK)).toBe(false);
});
