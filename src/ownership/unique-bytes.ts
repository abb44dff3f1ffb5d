import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { readMounts } from '../database/mounts.ts';
import { messageOf } from '../errors.ts';
import type { Unmeasured } from '../measured.ts';

const execute = promisify(execFile);

/**
 * All files of the server in the folder `$1`, or all files if there is none; of folders of databases (`base/<oid>`,
 * `PG_<version>/<oid>`) only those of `$2`, if that is one. What links lead to counts: snapshots may hold other files.
 */
const FILES = `cd "$1" || exit 1
set -- "\${2:-*}"
if [ -e data ]; then places='data/ data/pg_wal/ data/pg_tblspc/*/'; else places=.; fi
find $places -type d '(' -path '*/base/[0-9]*' -o -path '*/PG_[0-9]*_[0-9]*/[0-9]*' ')' ! -name "$1" -prune -o \
  -type f -size +0 -print0 | sort -zu | xargs -0 -r filefrag -v -b1024`;

/**
 * An extent in filefrag's output: number, first and last block in the file, first and last on the disk, length, perhaps the expected
 * position, flags. One that has no place on the disk yet has length 0.
 */
const EXTENT = /^\s*\d+:\s+(\d+)\.\.\s*(\d+):\s+\d+\.\.\s*\d+:\s+\d+:(.*)$/;

/**
 * Measures the bytes of the files in a folder that they share with no other file: the file system marks each shared extent. It
 * takes about as long as copying the files by reference did.
 * @param database OID of the only database whose files count, in the folder of a server. Default: all.
 */
export async function uniqueBytesOf(folder: string, database?: number): Promise<number | Unmeasured> {
  const datasets = (await readMounts()).filter(
    (mount) => mount.type === 'zfs' && path.dirname(mount.folder) === path.join(folder, 'parts'),
  );
  if (datasets.length > 0) return usedBy(datasets.map(({ source }) => source));
  const shell = spawn(
    '/bin/sh',
    ['-c', FILES, 'sh', folder, database === undefined ? '' : String(database)],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  );
  const ended = once(shell, 'close');
  let extents = 0;
  let kilobytes = 0;
  for await (const line of createInterface(shell.stdout)) {
    const [, first, last, flags] = EXTENT.exec(line) ?? [];
    if (flags === undefined) continue;
    extents += 1;
    if (!flags.includes('shared')) kilobytes += Number(last) - Number(first) + 1;
  }
  await ended;
  if (extents === 0)
    return {
      unmeasured:
        'filefrag (of e2fsprogs) is missing, or cannot ask this file system which blocks are shared',
    };
  return kilobytes * 1024;
}

/** ZFS counts exactly what a clone does not share with its origin. */
async function usedBy(datasets: readonly string[]): Promise<number | Unmeasured> {
  try {
    const { stdout } = await execute('zfs', ['get', '-Hp', '-o', 'value', 'used', ...datasets]);
    return stdout
      .trim()
      .split('\n')
      .reduce((sum, value) => sum + Number(value), 0);
  } catch (error) {
    return { unmeasured: `zfs get used failed: ${messageOf(error)}` };
  }
}
