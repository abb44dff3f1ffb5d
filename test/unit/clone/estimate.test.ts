import { expect, test } from 'vitest';
import { estimate, rank } from '../../../src/clone/template/assess-template.ts';

const GB = 1024 ** 3;
const strategies = (options: Parameters<typeof rank>[0]) => rank(options).map(({ strategy }) => strategy);
const few = { bytes: 1.5 * GB, files: 400 };
const many = { bytes: 0.2 * GB, files: 40_300 };

test('version 14 has nothing but the copy', () => {
  expect(strategies({ versionNum: 140_010, sharesBlocks: true, ...few })).toEqual(['copy']);
});

test('versions 15 to 17 know the copy through WAL, and no cloning of files', () => {
  for (const versionNum of [150_000, 160_000, 170_006])
    expect(strategies({ versionNum, sharesBlocks: true, ...few }).sort()).toEqual(['copy', 'wal_log']);
});

test('version 18 clones large files where blocks can be shared, and never where not', () => {
  expect(strategies({ versionNum: 180_000, sharesBlocks: true, ...few })[0]).toBe('clone');
  expect(strategies({ versionNum: 180_000, sharesBlocks: false, ...few })).not.toContain('clone');
});

test('many small relations go through WAL even where files can be cloned', () => {
  expect(strategies({ versionNum: 180_000, sharesBlocks: true, ...many })[0]).toBe('wal_log');
});

test('the cheapest comes first', () => {
  const ranking = rank({ versionNum: 180_000, sharesBlocks: true, ...few });
  const times = ranking.map(({ milliseconds }) => milliseconds);
  expect(times).toEqual([...times].sort((one, other) => one - other));
});

test('the time of a clone hardly depends on bytes, that of a copy does', () => {
  const time = (strategy: 'clone' | 'copy', bytes: number) =>
    estimate(strategy, { bytes, files: 300 }).milliseconds;
  expect(time('clone', 10 * GB)).toBeLessThan(1000);
  expect(time('copy', 10 * GB) / time('copy', GB)).toBeGreaterThan(9);
});
