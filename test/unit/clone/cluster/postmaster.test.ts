import { describe, expect, test } from 'vitest';
import { estimateClusterMs } from '../../../../src/clone/cluster/estimate-cluster.ts';
import { parsePostmasterFile } from '../../../../src/clone/cluster/recognise.ts';

describe('postmaster.pid', () => {
  test('tells the process, its start and its port', () => {
    const text =
      '4711\n/var/lib/postgresql/18/main\n1795266704\n5433\n/run/postgresql\nlocalhost\n  1 2\nready   \n';
    expect(parsePostmasterFile(text)).toEqual({ pid: 4711, startedAt: 1_795_266_704, port: 5433 });
  });

  test.each(['', '4711\n', 'x\n/data\ny\nz\n', '4711\n/data\n1795266704\n'])(
    '%j is none that is complete',
    (text) => {
      expect(parsePostmasterFile(text)).toBeUndefined();
    },
  );
});

describe('the time until a copy of a cluster can be used', () => {
  const size = { files: 40_000, bytes: 0, spreadMs: 270_000 };

  test('is about the same for a snapshot of any size, and grows with files and copied bytes', () => {
    const few = { ...size, files: 100 };
    expect(estimateClusterMs('btrfs snapshot', 'fast', size)).toBe(
      estimateClusterMs('btrfs snapshot', 'fast', few),
    );
    expect(estimateClusterMs('reflink', 'fast', size)).toBeGreaterThan(
      2 * estimateClusterMs('reflink', 'fast', few),
    );
    const copied = { ...few, bytes: 6e9 };
    expect(estimateClusterMs('copy', 'fast', copied)).toBeGreaterThan(
      10 * estimateClusterMs('reflink', 'fast', few),
    );
  });

  test('has the spreading of a checkpoint in it', () => {
    expect(estimateClusterMs('reflink', 'spread', size)).toBeGreaterThan(100_000);
  });
});
