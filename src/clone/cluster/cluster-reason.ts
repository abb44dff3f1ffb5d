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
  'btrfs snapshot': () => 'it is one btrfs subvolume, of which a snapshot is one call',
  'zfs snapshot': () => 'it is one ZFS dataset, of which a snapshot is one call',
  reflink: ({ files, unshared, bytes }) =>
    `its ${plural(files, 'file')} share their blocks with the copy` +
    (unshared.length > 0
      ? `, but for ${formatBytes(bytes)} in tablespaces on other file systems (${unshared.join(', ')})`
      : ''),
  copy: ({ fileSystem, bytes, place }) =>
    `${formatBytes(bytes)} are copied in full, because ${WHY_NOT[fileSystem](place.parent)}`,
};

const WHY_NOT: Record<Survey['fileSystem'], (parent: string) => string> = {
  xfs: (parent) =>
    `files in ${parent} cannot share blocks with it: the XFS was created without reflink=1, or it is another file system`,
  btrfs: (parent) => `files in ${parent} cannot share blocks with it: it is another file system`,
  zfs: (parent) =>
    `files in ${parent} cannot share blocks with it: that needs OpenZFS 2.2 with block cloning, and the same dataset`,
  other: () => 'its file system cannot share blocks between files (XFS, btrfs and ZFS 2.2 can)',
};
