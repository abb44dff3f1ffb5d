/** Gives advice on the file systems that hold the target. @param types their names in the kernel; none on macOS. */
export function fileSystemAdvice(
  types: readonly string[],
  versionNum: number,
  platform = process.platform,
): string[] {
  const advice = types.flatMap((type) => BY_TYPE[type] ?? []);
  if (platform === 'darwin') advice.push(APFS);
  const shares = types.length > 0 && types.every((type) => SHARING.has(type));
  if (shares && versionNum < FILE_COPY_METHOD_SINCE)
    advice.push(
      'CREATE DATABASE shares blocks from PostgreSQL 18 on (file_copy_method = clone); before that only a copy of the ' +
        'whole cluster does.',
    );
  if (types.length > 1)
    advice.push(
      'The data lies on several file systems: blocks are shared within each of them, and a snapshot of one does not contain the others.',
    );
  return advice;
}

const FILE_COPY_METHOD_SINCE = 180000;

/** Types of file systems that can share blocks between files, if they were created with that feature. */
const SHARING = new Set(['xfs', 'btrfs', 'zfs', 'bcachefs', 'apfs']);

const CANNOT_SHARE =
  'cannot share blocks between files, so that every clone is a full copy. XFS (mkfs.xfs, with reflink, the default), btrfs ' +
  'and ZFS (snapshots, as root) can: with the data directory on one of them a clone of any size takes about a second.';

const APFS =
  'If the server runs on this Mac: APFS can share blocks between files, which safemigrate uses if a trial with one file succeeds. ' +
  'Clones on APFS were not tried in its own tests.';

const BY_TYPE: Readonly<Record<string, readonly string[]>> = {
  ext4: [`ext4 ${CANNOT_SHARE}`],
  ext3: [`ext3 ${CANNOT_SHARE}`],
  overlay: [`overlay (the writable layer of a container) ${CANNOT_SHARE} Put the data on a volume.`],
  tmpfs: [`tmpfs ${CANNOT_SHARE}`],
  xfs: [
    'XFS shares blocks if it was created with reflink=1: `xfs_info <mount point>` shows it. One created without it cannot be ' +
      'changed; move the data to a new one (mkfs.xfs -m reflink=1).',
  ],
  btrfs: [
    'btrfs: files with the attribute nodatacow (chattr +C) share blocks with one another as well, but the first write to each ' +
      'shared block is then copied on write; a snapshot is one call whatever the number of files if data directory, WAL ' +
      'and tablespaces are in one subvolume.',
  ],
  zfs: [
    'ZFS: snapshots need root, since on Linux only root may mount a clone. Block cloning, which other users need instead, is in OpenZFS ' +
      "2.2 (zfs_bclone_enabled=1), and was not tried in safemigrate's own tests. With the server's files on this machine, doctor run as " +
      'root also checks the settings of the datasets.',
  ],
};
