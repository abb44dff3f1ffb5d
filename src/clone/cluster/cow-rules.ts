import { formatBytes } from '../../format.ts';

/** Settings that matter for copy-on-write; a value that could not be read is missing. */
export interface CowFacts {
  readonly kind: 'zfs' | 'btrfs' | 'xfs';
  /** Settings of the server by name, as SHOW prints them; sizes in bytes. */
  readonly server: ReadonlyMap<string, string>;
  /** Properties of the dataset of the data directory, as `zfs get -p` prints them, and of its pool (`pool.capacity`). */
  readonly dataset: ReadonlyMap<string, string>;
  /** The same of the dataset of WAL. */
  readonly walDataset: ReadonlyMap<string, string>;
  /** Bytes that the ARC may take, and of the machine. */
  readonly arcBytes: number | null;
  readonly memoryBytes: number | null;
  readonly zfsVersion: string | null;
  /** The module's zfs_bclone_enabled, which exists from OpenZFS 2.2 on. */
  readonly blockCloning: boolean | null;
  /** Files share their blocks with copies in the folder for clones. */
  readonly shares: boolean;
  /** Files of the data directory have the attribute nodatacow. */
  readonly nodatacow: boolean;
  /** Extents of the largest file of a relation. */
  readonly extents: number | null;
}

/** A setting that does not suit copy-on-write. */
export interface CowFinding {
  readonly code: string;
  readonly found: string;
  readonly change: string;
  /** Why, and what the change costs. */
  readonly why: string;
}

interface Rule extends Omit<CowFinding, 'found'> {
  readonly kinds: readonly CowFacts['kind'][];
  /** Returns what was found, if it is a mistake. */
  find(facts: CowFacts): string | undefined;
}

const PAGE = 8192;
const FULL_PERCENT = 80;
const MANY_EXTENTS = 20_000;
const KB = 1024;

/** The one place of these rules. Sources: the documentation of OpenZFS, btrfs and PostgreSQL. */
const RULES: readonly Rule[] = [
  {
    code: 'RECORDSIZE',
    kinds: ['zfs'],
    find: ({ dataset }) =>
      property('recordsize', Number(dataset.get('recordsize')), (size) => size > 32 * KB),
    change: 'zfs set recordsize=16k (8k to 32k) for the data; WAL may have 128k',
    why: 'each write of a page of 8 kB writes a whole record, and so does the first one after a clone; it holds for new files only, and compresses less',
  },
  {
    code: 'COMPRESSION_OFF',
    kinds: ['zfs'],
    find: ({ dataset }) => equal(dataset, 'compression', ['off']),
    change: 'zfs set compression=lz4 (or zstd)',
    why: 'clones write less, and less has to be read; lz4 takes little of a processor, and it holds for new blocks only',
  },
  {
    code: 'ATIME',
    kinds: ['zfs'],
    find: ({ dataset }) => (dataset.get('relatime') === 'on' ? undefined : equal(dataset, 'atime', ['on'])),
    change: 'zfs set atime=off',
    why: 'each read of a file writes its time, and so takes space that a snapshot does not share; PostgreSQL does not need it',
  },
  {
    code: 'LOGBIAS',
    kinds: ['zfs'],
    find: ({ dataset, walDataset }) =>
      equal(dataset, 'logbias', ['throughput']) ?? equal(walDataset, 'logbias', ['throughput']),
    change: 'zfs set logbias=latency',
    why: 'throughput writes blocks of commits apart, which fragments the pool; with latency a log device is used, if there is one',
  },
  {
    code: 'PRIMARYCACHE',
    kinds: ['zfs'],
    find: ({ dataset }) => equal(dataset, 'primarycache', ['none', 'metadata']),
    change: 'zfs set primarycache=all',
    why: 'clones have small shared_buffers and read what they share with the target from the ARC; it takes memory, which zfs_arc_max limits',
  },
  {
    code: 'SYNC_DISABLED',
    kinds: ['zfs'],
    find: ({ dataset, walDataset }) =>
      equal(dataset, 'sync', ['disabled']) ?? equal(walDataset, 'sync', ['disabled']),
    change: 'zfs set sync=standard',
    why: 'a crash of the machine loses commits of up to some seconds although fsync is on; commits then wait for the disk again',
  },
  {
    code: 'CHECKSUM_OFF',
    kinds: ['zfs'],
    find: ({ dataset }) => equal(dataset, 'checksum', ['off']),
    change: 'zfs set checksum=on',
    why: 'a damaged block is not noticed, and all clones share it; checksums take little of a processor, and hold for new blocks only',
  },
  {
    code: 'DEDUP',
    kinds: ['zfs'],
    find: ({ dataset }) => equal(dataset, 'dedup', ['on', 'verify', 'sha256', 'sha256,verify']),
    change: 'zfs set dedup=off',
    why: 'each write looks its block up in a table that needs memory, and clones share their blocks without it; it holds for new blocks only',
  },
  {
    code: 'XATTR',
    kinds: ['zfs'],
    // ZFS in user space knows no `sa`, and no dnodesize.
    find: ({ dataset }) => (dataset.has('dnodesize') ? equal(dataset, 'xattr', ['on', 'dir']) : undefined),
    change: 'zfs set xattr=sa dnodesize=auto',
    why: 'extended attributes lie in hidden folders, which a clone of many files reads one by one; it holds for new files only',
  },
  {
    code: 'WAL_INIT_ZERO',
    kinds: ['zfs', 'btrfs'],
    find: ({ server }) => equal(server, 'wal_init_zero', ['on']),
    change: 'ALTER SYSTEM SET wal_init_zero = off; SELECT pg_reload_conf();',
    why: 'copy-on-write reserves nothing for later: zeros are written (or compressed away) for nothing; it costs nothing',
  },
  {
    code: 'WAL_RECYCLE',
    kinds: ['zfs', 'btrfs'],
    find: ({ server }) => equal(server, 'wal_recycle', ['on']),
    change: 'ALTER SYSTEM SET wal_recycle = off; SELECT pg_reload_conf();',
    why: 'old WAL files are not written in place, so that a new one is cheaper; old ones that snapshots share are not read again',
  },
  {
    code: 'FULL_PAGE_WRITES',
    kinds: ['zfs'],
    find: ({ server, dataset }) =>
      Number(dataset.get('recordsize')) >= PAGE ? equal(server, 'full_page_writes', ['on']) : undefined,
    change: 'ALTER SYSTEM SET full_page_writes = off; SELECT pg_reload_conf();',
    why: 'ZFS writes a page whole or not at all, and after each checkpoint (each clone makes one) whole pages go into WAL; only if all data of the cluster and of its standbys lies on ZFS',
  },
  {
    code: 'DIRECT_IO',
    kinds: ['zfs', 'btrfs'],
    find: ({ server }) => {
      const name = server.has('debug_io_direct') ? 'debug_io_direct' : 'io_direct';
      const value = server.get(name);
      return value === undefined || value === '' ? undefined : `${name} = ${value}`;
    },
    change: "set debug_io_direct = '' and restart the server",
    why: 'direct I/O goes past the ARC (before OpenZFS 2.3 it has no effect), and breaks the checksums of btrfs; reads are cached twice without it',
  },
  {
    code: 'ARC_SIZE',
    kinds: ['zfs'],
    find: ({ arcBytes, memoryBytes, server }) => {
      const shared = Number(server.get('shared_buffers'));
      if (arcBytes === null || memoryBytes === null || arcBytes + shared <= memoryBytes * 0.9)
        return undefined;
      return `ARC up to ${formatBytes(arcBytes)} and shared_buffers of ${formatBytes(shared)}, of ${formatBytes(memoryBytes)} of memory`;
    },
    change: 'lower zfs_arc_max, or shared_buffers',
    why: 'both hold the same pages, and a clone needs memory as well; with less of it more is read from the disk',
  },
  {
    code: 'POOL_FULL',
    kinds: ['zfs'],
    find: ({ dataset }) =>
      property(
        'pool capacity (%)',
        Number(dataset.get('pool.capacity')),
        (percent) => percent > FULL_PERCENT,
      ),
    change: `free space, or add a disk, until less than ${FULL_PERCENT} % are used`,
    why: 'in a full pool each write looks long for space, and a clone makes writes of the target take new space',
  },
  {
    code: 'POOL_FRAGMENTED',
    kinds: ['zfs'],
    find: ({ dataset }) =>
      property('fragmentation (%)', Number(dataset.get('pool.fragmentation')), (percent) => percent > 50),
    change: 'destroy old snapshots and clones; `zfs send` to a new pool defragments',
    why: 'free space is in small pieces, so that what clones unshare is written slowly; sending takes as long as copying',
  },
  {
    code: 'BLOCK_CLONING_BUG',
    kinds: ['zfs'],
    find: ({ zfsVersion }) =>
      /^2\.2\.[01](\D|$)/.test(zfsVersion ?? '') ? `OpenZFS ${zfsVersion}` : undefined,
    change: 'upgrade OpenZFS to 2.2.4 or newer; until then zfs_bclone_enabled=0',
    why: '2.2.0 could lose data of files that were cloned by reference while they were written (fixed in 2.2.2); snapshots are not concerned',
  },
  {
    code: 'BLOCK_CLONING_OFF',
    kinds: ['zfs'],
    find: ({ blockCloning, shares, zfsVersion }) =>
      blockCloning === false && !shares ? `zfs_bclone_enabled = 0 (OpenZFS ${zfsVersion})` : undefined,
    change:
      'run safemigrate as root, which takes snapshots; or, with 2.2.4 or newer, echo 1 > /sys/module/zfs/parameters/zfs_bclone_enabled',
    why: "every clone is a full copy; block cloning is off by default in 2.2, since 2.2.0 could lose data, and was not tried in safemigrate's own tests",
  },
  {
    code: 'NODATACOW',
    kinds: ['btrfs'],
    find: ({ nodatacow }) => (nodatacow ? 'files with the attribute nodatacow (chattr +C)' : undefined),
    change: 'initdb in a folder without the attribute, and restore into it',
    why: 'such files have no checksums, and after each snapshot the first write to a block is copied all the same; with copy-on-write random writes fragment',
  },
  {
    code: 'NO_REFLINK',
    kinds: ['xfs'],
    find: ({ shares }) => (shares ? undefined : 'this XFS cannot share blocks'),
    change: 'move the data to a new one: mkfs.xfs -m reflink=1',
    why: 'every clone is a full copy; a file system cannot be changed afterwards',
  },
  {
    code: 'MANY_EXTENTS',
    kinds: ['xfs', 'btrfs'],
    find: ({ extents }) =>
      extents !== null && extents > MANY_EXTENTS ? `a file of ${extents} extents` : undefined,
    change:
      'VACUUM FULL, CLUSTER or pg_repack of large tables that were written during many clones; xfs_fsr or btrfs defragment',
    why: 'writes to shared blocks go elsewhere, and each clone has to share every extent; defragmenting unshares all clones and takes their space',
  },
];

/** Finds what does not suit copy-on-write, and says what to change. */
export function findCowMistakes(facts: CowFacts): CowFinding[] {
  return RULES.flatMap(({ kinds, find, code, change, why }) => {
    const found = kinds.includes(facts.kind) ? find(facts) : undefined;
    return found === undefined ? [] : [{ code, found, change, why }];
  });
}

function equal(
  values: ReadonlyMap<string, string>,
  name: string,
  mistakes: readonly string[],
): string | undefined {
  const value = values.get(name);
  return value !== undefined && mistakes.includes(value) ? `${name} = ${value}` : undefined;
}

function property(name: string, value: number, isMistake: (value: number) => boolean): string | undefined {
  return isMistake(value) ? `${name} = ${value}` : undefined;
}
