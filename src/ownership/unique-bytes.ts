import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** All files below `$1`, but of folders of databases (`base/<oid>`, `PG_<version>/<oid>`) only those of `$2`, if that is one. */
const FILES = `find "$1" -type d '(' -path '*/base/[0-9]*' -o -path '*/PG_[0-9]*_[0-9]*/[0-9]*' ')' ! -name "\${2:-*}" -prune -o \
  -type f -size +0 -print0 | xargs -0 -r filefrag -v -b1024`;

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
export async function uniqueBytesOf(
  folder: string,
  database?: number,
): Promise<number | { readonly unmeasured: string }> {
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
