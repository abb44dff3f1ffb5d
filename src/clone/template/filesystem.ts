import { freeSpace, resolveHere } from '../../database/data-folders.ts';
import { mountOf, parseMounts } from '../../database/mounts.ts';
import type { Target } from '../../database/target.ts';
import type { Session } from '../../postgres/connection/session.ts';

/** Facts about the target's file systems, found without a write on the server. */
export interface FileSystems {
  /**
   * Whether files can share blocks there. `unknown` if the role may not read the server's mounts: then the clone is attempted under
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
    (await attempt(() =>
      session.query<{ data_folder: string | null; reads_files: boolean; tablespaces: string[] }>(FOLDERS, [
        target.database.oid,
      ]),
    )) ?? [];
  if (!row?.data_folder)
    return {
      canShare: 'unknown',
      description: 'the role may not read the path of the data directory',
      types: [],
      freeBytes: null,
    };
  const folders = [row.data_folder, ...row.tablespaces];
  if (!row.reads_files)
    return {
      canShare: 'unknown',
      description: "the role may not read the server's mounts",
      types: [],
      freeBytes: null,
    };
  const here = await resolveHere(session, target, folders);
  const freeBytes = here && (await freeSpace(here));
  const [mounted] = (await attempt(() => session.query<{ mounts: string }>(MOUNTS))) ?? [];
  if (!mounted)
    return {
      canShare: 'unknown',
      description: "the role may not read the server's mounts",
      types: [],
      freeBytes,
    };
  return { ...judgeMounts(mounted.mounts, here ?? folders), freeBytes };
}

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

async function attempt<T>(query: () => Promise<T>): Promise<T | undefined> {
  try {
    return await query();
  } catch {
    return undefined;
  }
}
