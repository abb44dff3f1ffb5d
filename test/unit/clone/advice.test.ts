import { describe, expect, test } from 'vitest';
import { fileSystemAdvice } from '../../../src/clone/template/filesystem.ts';

describe('advice on file systems', () => {
  test.each(['ext4', 'ext3', 'overlay', 'tmpfs'])('%s is told what would share blocks', (type) => {
    const [first, ...more] = fileSystemAdvice([type], 180000);
    expect(first).toMatch(new RegExp(`^${type} .*XFS.*btrfs.*ZFS`));
    expect(more).toEqual([]);
  });

  test('a container is told to put its data on a volume', () => {
    expect(fileSystemAdvice(['overlay'], 180000).join()).toContain('volume');
  });

  test.each([
    ['xfs', 'reflink=1'],
    ['btrfs', 'nodatacow'],
    ['zfs', 'only root may mount a clone'],
  ])('%s is told what it depends on there', (type, what) => {
    expect(fileSystemAdvice([type], 180000)).toEqual([expect.stringContaining(what)]);
  });

  test('what was not tried is said to be so: block cloning of ZFS, and APFS', () => {
    expect(fileSystemAdvice(['zfs'], 180000).join()).toMatch(/Block cloning.* was not tried/);
    expect(fileSystemAdvice([], 180000, 'darwin')).toEqual([expect.stringMatching(/APFS.* were not tried/)]);
  });

  test('where blocks can be shared, servers before 18 are told that CREATE DATABASE does not', () => {
    expect(fileSystemAdvice(['xfs'], 170009).join()).toContain('from PostgreSQL 18 on');
    expect(fileSystemAdvice(['xfs'], 180000).join()).not.toContain('from PostgreSQL 18 on');
    expect(fileSystemAdvice(['xfs', 'ext4'], 170009).join()).not.toContain('from PostgreSQL 18 on');
  });

  test('several file systems are said to share within each of them only', () => {
    expect(fileSystemAdvice(['xfs', 'btrfs'], 180000)).toEqual([
      expect.stringContaining('XFS'),
      expect.stringContaining('btrfs'),
      expect.stringContaining('several file systems'),
    ]);
  });

  test('nothing is said of what is not known', () => {
    expect(fileSystemAdvice([], 150000)).toEqual([]);
    expect(fileSystemAdvice(['f2fs'], 150000)).toEqual([]);
  });
});
