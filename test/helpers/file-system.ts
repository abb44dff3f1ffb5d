import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { access, chmod, mkdir, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

export type FileSystemKind = 'xfs' | 'btrfs' | 'ext4';

export interface LoopFileSystem {
  /** Where it is mounted; every user may write there. */
  readonly folder: string;
  /** Unmounts it and removes its image. Idempotent. */
  destroy(): Promise<void>;
}

const run = promisify(execFile);

const PREFIX = 'safemigrate-loop-';
const CAP_SYS_ADMIN = 21n;

const MAKE: Record<FileSystemKind, [string, ...string[]]> = {
  xfs: ['mkfs.xfs', '-q', '-m', 'reflink=1'],
  btrfs: ['mkfs.btrfs', '-q'],
  ext4: ['mkfs.ext4', '-q', '-F'],
};

/** @returns why such a file system cannot be made here, for skipReason(); null when it can. */
export async function loopFileSystemObstacle(kind: FileSystemKind): Promise<string | null> {
  if (process.platform !== 'linux') return `${kind} on a loop device needs Linux`;
  if (process.getuid?.() !== 0) return `${kind} on a loop device needs root`;
  const status = await readFile('/proc/self/status', 'utf8');
  const capabilities = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)/m.exec(status)?.[1] ?? '0'}`);
  if (((capabilities >> CAP_SYS_ADMIN) & 1n) === 0n) return 'this container may not mount file systems';
  try {
    await access('/dev/loop-control');
  } catch {
    return 'there are no loop devices here';
  }
  try {
    await run('sh', ['-c', `command -v ${MAKE[kind][0]}`]);
    return null;
  } catch {
    return `${MAKE[kind][0]} is not installed`;
  }
}

/** A file system of its own in a sparse file; xfs wants at least 300 MiB, btrfs 110. */
export async function loopFileSystem(kind: FileSystemKind, sizeBytes: number): Promise<LoopFileSystem> {
  const place = path.join(tmpdir(), `${PREFIX}${process.pid}-${randomBytes(4).toString('hex')}`);
  const folder = path.join(place, 'mount');
  const image = path.join(place, 'image');
  try {
    await mkdir(folder, { recursive: true });
    await writeFile(image, '');
    await truncate(image, sizeBytes);
    const [program, ...options] = MAKE[kind];
    await run(program, [...options, image]);
    // A loop device that mount made goes with the unmount.
    await run('mount', ['-o', 'loop', image, folder]);
    await chmod(folder, 0o1777);
  } catch (error) {
    await remove(place);
    throw error;
  }
  return { folder, destroy: () => remove(place) };
}

/** A file system in memory of this size, which may be full (`size` 0 would be unlimited) or read-only. Root may mount one. */
export async function memoryFileSystem(sizeBytes: number, ...options: string[]): Promise<LoopFileSystem> {
  const place = path.join(tmpdir(), `${PREFIX}${process.pid}-${randomBytes(4).toString('hex')}`);
  const folder = path.join(place, 'mount');
  await mkdir(folder, { recursive: true });
  const words = [`size=${sizeBytes}`, 'mode=1777', ...options].join(',');
  await run('mount', ['-t', 'tmpfs', '-o', words, 'tmpfs', folder]);
  return { folder, destroy: () => remove(place) };
}

/** Fills a file system to its last byte, with one file. @returns a way to free it again. */
export async function fillUp({ folder }: LoopFileSystem): Promise<() => Promise<void>> {
  const file = path.join(folder, 'filler');
  await run('sh', ['-c', `! cat /dev/zero 2> /dev/null > '${file}'`]);
  return () => rm(file);
}

/** Removes what test runs that were killed have left. */
export async function removeStaleFileSystems(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = name.startsWith(PREFIX) ? Number(name.slice(PREFIX.length).split('-')[0]) : Number.NaN;
    if (!Number.isInteger(pid) || (await isNode(pid))) continue;
    await remove(path.join(tmpdir(), name));
  }
}

async function remove(place: string): Promise<void> {
  const folder = path.join(place, 'mount');
  const mounts = await readFile('/proc/self/mounts', 'utf8');
  if (mounts.includes(` ${folder} `)) await run('umount', [folder]);
  await rm(place, { recursive: true, force: true });
}

async function isNode(pid: number): Promise<boolean> {
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  return command.includes('node') || command.includes('vitest');
}
