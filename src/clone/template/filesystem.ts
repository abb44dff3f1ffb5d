import { freeSpace, orUndefined, resolveHere } from '../../database/data-folders.ts';
import { mountOf, parseMounts } from '../../database/mounts.ts';
import type { Target } from '../../database/target.ts';
import type { Session } from '../../postgres/connection/session.ts';

/** Facts about the target's file systems, found without a write on the server. */
export interface FileSystems {
  /**
   * The ability of files to share blocks there. `unknown` if the role may not read the server's mounts: then the clone is attempted under
   * a time limit.
   */
  readonly canShare: 'yes' | 'perhaps' | 'no' | 'unknown';
  /** For the report: `xfs`, `ext4`, or the reason why it is not known. */
  readonly description: string;
  /** The types by the kernel's names; empty if not known. */
  readonly types: readonly string[];
  /** Bytes free for an ordinary user; null if the server's disk cannot be seen from here. */
  readonly freeBytes: number | null;
}

/**
 * The target's folders: the data directory and the tablespaces of its relations. Privileges are checked first, since a refused
 * statement would appear in the server's log.
 */
const FOLDERS = `
SELECT CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE') THEN current_setting('data_directory') END AS data_folder,
       pg_has_role('pg_read_server_files', 'USAGE') AND has_function_privilege('pg_read_file(text)', 'EXECUTE')
         AND has_function_privilege('pg_stat_file(text)', 'EXECUTE') AS reads_files,
       ARRAY(SELECT pg_tablespace_location(t.oid) FROM pg_tablespace t
              WHERE pg_tablespace_location(t.oid) <> ''
                AND $1::oid IN (SELECT pg_tablespace_databases(t.oid))) AS tablespaces`;

/** The kernel's mounts as the server sees them; superusers and members of pg_read_server_files may read it (Linux only). */
const MOUNTS = `SELECT pg_read_file('/proc/self/mountinfo') AS mounts`;

/** ext4, tmpfs and overlay accept `file_copy_method = clone` and copy in full: the kernel's copy_file_range does that. */
const SHARING: Record<string, FileSystems['canShare']> = {
  // An XFS created without reflink=1 cannot, which its type does not show.
  xfs: 'perhaps',
  btrfs: 'yes',
  zfs: 'perhaps',
  bcachefs: 'yes',
  apfs: 'yes',
  ext4: 'no',
  ext3: 'no',
  ext2: 'no',
  tmpfs: 'no',
  overlay: 'no',
  f2fs: 'no',
};

export async function inspectFileSystems(session: Session, target: Target): Promise<FileSystems> {
  const [row] =
    (await orUndefined(() =>
      session.query<{ data_folder: string | null; reads_files: boolean; tablespaces: string[] }>(FOLDERS, [
        target.database.oid,
      ]),
    )) ?? [];
  const unknown = (description: string, freeBytes: number | null = null): FileSystems => ({
    canShare: 'unknown',
    description,
    types: [],
    freeBytes,
  });
  if (!row?.data_folder) return unknown('the role may not read the path of the data directory');
  const folders = [row.data_folder, ...row.tablespaces];
  if (!row.reads_files) return unknown(NO_MOUNTS);
  const here = await resolveHere(session, target, folders);
  const freeBytes = here && (await freeSpace(here));
  const [mounted] = (await orUndefined(() => session.query<{ mounts: string }>(MOUNTS))) ?? [];
  if (!mounted) return unknown(NO_MOUNTS, freeBytes);
  return { ...judgeMounts(mounted.mounts, here ?? folders), freeBytes };
}

const NO_MOUNTS = "the role may not read the server's mounts";

/** Finds the file systems of these folders in the text of a mountinfo file; the one with the fewest features decides. */
export function judgeMounts(
  mountinfo: string,
  folders: string[],
): Pick<FileSystems, 'canShare' | 'description' | 'types'> {
  const mounts = parseMounts(mountinfo);
  const types = [...new Set(folders.map((folder) => mountOf(folder, mounts)?.type ?? 'unknown file system'))];
  const abilities = types.map((type) => SHARING[type] ?? 'unknown');
  const order: FileSystems['canShare'][] = ['no', 'unknown', 'perhaps', 'yes'];
  const canShare = order.find((ability) => abilities.includes(ability)) ?? 'unknown';
  // Blocks are not shared across file systems; that is no obstacle, since each relation stays in its own tablespace.
  return { canShare, description: types.join(' and '), types };
}

/** Gives advice on the file systems that hold the target. @param types their names in the kernel; none on macOS. */
export function fileSystemAdvice(
  types: readonly string[],
  versionNum: number,
  platform = process.platform,
): string[] {
  const advice = types.flatMap((type) => BY_TYPE[type] ?? []);
  if (platform === 'darwin') advice.push(APFS);
  const shares =
    types.length > 0 && types.every((type) => ['yes', 'perhaps'].includes(SHARING[type] ?? 'unknown'));
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
