import { describe, expect, test } from 'vitest';
import { type CowFacts, findCowMistakes } from '../../../../src/clone/cluster/cow-rules.ts';

const GB = 2 ** 30;
const map = (values: Record<string, string>) => new Map(Object.entries(values));
const GOOD_DATASET = {
  recordsize: '16384',
  compression: 'lz4',
  atime: 'off',
  logbias: 'latency',
  primarycache: 'all',
  sync: 'standard',
  checksum: 'on',
  dedup: 'off',
  xattr: 'sa',
  dnodesize: 'auto',
  'pool.capacity': '60',
  'pool.fragmentation': '20',
};
const GOOD_SERVER = {
  wal_init_zero: 'off',
  wal_recycle: 'off',
  full_page_writes: 'off',
  shared_buffers: `${GB}`,
};

const good: CowFacts = {
  kind: 'zfs',
  server: map(GOOD_SERVER),
  dataset: map(GOOD_DATASET),
  walDataset: map(GOOD_DATASET),
  arcBytes: 8 * GB,
  memoryBytes: 16 * GB,
  zfsVersion: '2.2.7-1',
  blockCloning: null,
  shares: true,
  nodatacow: false,
  extents: null,
};
const codes = (changes: Partial<CowFacts>) =>
  findCowMistakes({ ...good, ...changes }).map(({ code }) => code);
const dataset = (changes: Record<string, string>) => ({ dataset: map({ ...GOOD_DATASET, ...changes }) });
const server = (changes: Record<string, string>) => ({ server: map({ ...GOOD_SERVER, ...changes }) });

describe('settings for copy-on-write', () => {
  test('that are good have no mistakes', () => {
    for (const kind of ['zfs', 'btrfs', 'xfs'] as const) expect(codes({ kind })).toEqual([]);
  });

  test.each<[string, Partial<CowFacts>]>([
    ['RECORDSIZE', dataset({ recordsize: '131072' })],
    ['COMPRESSION_OFF', dataset({ compression: 'off' })],
    ['ATIME', dataset({ atime: 'on' })],
    ['LOGBIAS', { walDataset: map({ ...GOOD_DATASET, logbias: 'throughput' }) }],
    ['PRIMARYCACHE', dataset({ primarycache: 'none' })],
    ['SYNC_DISABLED', { walDataset: map({ ...GOOD_DATASET, sync: 'disabled' }) }],
    ['CHECKSUM_OFF', dataset({ checksum: 'off' })],
    ['DEDUP', dataset({ dedup: 'on' })],
    ['XATTR', dataset({ xattr: 'on' })],
    ['WAL_INIT_ZERO', { kind: 'btrfs', ...server({ wal_init_zero: 'on' }) }],
    ['WAL_RECYCLE', server({ wal_recycle: 'on' })],
    ['FULL_PAGE_WRITES', server({ full_page_writes: 'on' })],
    ['DIRECT_IO', server({ debug_io_direct: 'data' })],
    ['ARC_SIZE', { arcBytes: 15 * GB }],
    ['POOL_FULL', dataset({ 'pool.capacity': '85' })],
    ['POOL_FRAGMENTED', dataset({ 'pool.fragmentation': '61' })],
    ['BLOCK_CLONING_BUG', { zfsVersion: '2.2.0-rc3' }],
    ['BLOCK_CLONING_OFF', { blockCloning: false, shares: false }],
    ['NODATACOW', { kind: 'btrfs', nodatacow: true }],
    ['NO_REFLINK', { kind: 'xfs', shares: false }],
    ['MANY_EXTENTS', { kind: 'xfs', extents: 50_000 }],
  ])('%s is found, and nothing else', (code, changes) => {
    expect(codes(changes)).toEqual([code]);
  });

  test('are no mistake on another file system, nor if they are not known', () => {
    expect(codes({ kind: 'xfs', ...server({ wal_recycle: 'on', full_page_writes: 'on' }) })).toEqual([]);
    expect(codes({ dataset: map({}), walDataset: map({}), server: map({}), arcBytes: null })).toEqual([]);
    // ZFS in user space knows no xattr=sa.
    const { dnodesize: _, ...old } = GOOD_DATASET;
    expect(codes({ dataset: map({ ...old, xattr: 'on' }) })).toEqual([]);
    expect(codes(dataset({ atime: 'on', relatime: 'on' }))).toEqual([]);
    // Snapshots share blocks without it.
    expect(codes({ blockCloning: false })).toEqual([]);
  });
});
