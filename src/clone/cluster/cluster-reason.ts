import { formatBytes, plural } from '../../format.ts';
import type { Survey } from './survey.ts';

/** Explains for the report why the cluster is copied in this way. */
export function explainStrategy(survey: Survey): string {
  const { server, layout } = survey;
  const whose = server.inRecovery ? "the standby's" : "the server's";
  const others = 'a server of its own on a copy of the files, with no session in the way';
  return `${others}: ${HOW[survey.strategy](survey)} (${whose} data directory ${layout.data})`;
}

const HOW: Record<Survey['strategy'], (survey: Survey) => string> = {
  'btrfs snapshot': (survey) => bySnapshots(survey, 'btrfs subvolume'),
  'zfs snapshot': (survey) => bySnapshots(survey, 'ZFS dataset'),
  reflink: ({ files, unshared, fileSystem, ...size }) =>
    `its ${plural(files, 'file')} share their blocks with the copy${untried(fileSystem)}` +
    (unshared.length > 0
      ? `, but for ${sizeWords(size)} in tablespaces on other file systems (${unshared.join(', ')})`
      : ''),
  copy: ({ fileSystem, place, ...size }) =>
    `${sizeWords(size)} are copied in full, because ${WHY_NOT[fileSystem](place.parent)}`,
};

/** Of files that took too long to count, says what was seen, and what all used space of their file system would be. */
export function sizeWords({ bytes, atMostBytes }: Pick<Survey, 'bytes' | 'atMostBytes'>): string {
  if (atMostBytes <= bytes) return formatBytes(bytes);
  return `more than ${formatBytes(bytes)} (at most ${formatBytes(atMostBytes)}; counting took too long)`;
}

/** What could not be had for the tests is said wherever it is used. */
function untried(fileSystem: Survey['fileSystem']): string {
  const way = fileSystem === 'zfs' ? 'block cloning of ZFS' : process.platform === 'darwin' ? 'APFS' : null;
  return way === null ? '' : `, by ${way}, which was not tried in safemigrate's own tests`;
}

function bySnapshots({ snapshots }: Survey, volume: string): string {
  const { volumes = [], atomic = true } = snapshots ?? {};
  const roots = volumes.map(({ root, dataset }) => dataset ?? root).join(', ');
  const how = atomic ? 'at one moment' : 'in a backup, since not all of it is in one snapshot';
  return `it lies in ${plural(volumes.length, volume)} (${roots}), of which snapshots are taken ${how}`;
}

const WHY_NOT: Record<Survey['fileSystem'], (parent: string) => string> = {
  xfs: (parent) =>
    `files in ${parent} cannot share blocks with it: the XFS was created without reflink=1, or it is another file system`,
  btrfs: (parent) => `files in ${parent} cannot share blocks with it: it is another file system`,
  zfs: (parent) =>
    `files in ${parent} cannot share blocks with it: that needs OpenZFS 2.2 with block cloning, and the same dataset; ` +
    'snapshots need root (on Linux only root may mount a clone, whatever `zfs allow` permits), and all parts on ZFS',
  other: () => 'its file system cannot share blocks between files (XFS, btrfs and ZFS can)',
};
