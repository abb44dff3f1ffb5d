import { readFile } from 'node:fs/promises';

/** A mount, as the kernel lists it in mountinfo. */
export interface Mount {
  readonly folder: string;
  /** The part of the file system that is mounted: `/`, or a folder of a bind mount. */
  readonly root: string;
  /** `fuse.zfs`, of a ZFS in user space, counts as `zfs`. */
  readonly type: string;
  /** Source of the mount: a device, or the name of a ZFS dataset. */
  readonly source: string;
  /** Number of the file system, the same for all mounts and subvolumes of it. */
  readonly device: string;
}

/** Lists the mounts of this machine; none where the kernel is not Linux. */
export async function readMounts(): Promise<Mount[]> {
  return parseMounts(await readFile('/proc/self/mountinfo', 'utf8').catch(() => ''));
}

/** Parses a mountinfo file. */
export function parseMounts(mountinfo: string): Mount[] {
  return mountinfo
    .split('\n')
    .map(parseMount)
    .filter((mount) => mount !== undefined);
}

/** `42 27 7:0 / /var/lib rw,relatime shared:1 - xfs /dev/loop0 rw`: type and source follow the lone dash. */
function parseMount(line: string): Mount | undefined {
  const [before, after] = line.split(' - ');
  const [, , device, root, folder] = before?.split(' ') ?? [];
  const [type, source = ''] = after?.split(' ') ?? [];
  if (folder === undefined || device === undefined || root === undefined || type === undefined)
    return undefined;
  return {
    device,
    root: unescaped(root),
    folder: unescaped(folder),
    source: unescaped(source),
    type: type === 'fuse.zfs' ? 'zfs' : type,
  };
}

function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(parseInt(octal, 8)));
}

/** Finds the mount of the folder: the longest that is a prefix of it; of equal ones, the last. */
export function mountOf(folder: string, mounts: readonly Mount[]): Mount | undefined {
  let best: Mount | undefined;
  for (const mount of mounts) {
    const holds = mount.folder === '/' || folder === mount.folder || folder.startsWith(`${mount.folder}/`);
    if (holds && mount.folder.length >= (best?.folder.length ?? 0)) best = mount;
  }
  return best;
}
