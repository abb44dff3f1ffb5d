import { execFile } from 'node:child_process';
import { existsSync, lchownSync, mkdirSync, statSync } from 'node:fs';
import { constants, copyFile, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { codeOf, messageOf, SafemigrateError } from '../../errors.ts';
import { formatBytes } from '../../format.ts';
import { parseRunId, type RunId, startOf } from '../../ownership/run-id.ts';

interface CopierOptions {
  /** Share blocks if the file system can. */
  readonly share: boolean;
  /** The folder of the clone. */
  readonly folder: string;
  /** Owner of everything that is created; null for our own user. */
  readonly owner: { readonly uid: number; readonly gid: number } | null;
  /** Limit for bytes that are copied in full. */
  readonly maxCopyBytes: number;
  readonly signal: AbortSignal;
}

const CHUNK_BYTES = 4 * 1024 * 1024;

/** Copies single files and folders, each with its mode. Skips files that no longer exist. */
export class Copier {
  readonly #options: CopierOptions;
  readonly #reflinker: Reflinker;
  #copiedBytes = 0;

  constructor(options: CopierOptions) {
    this.#options = options;
    this.#reflinker = new Reflinker(path.join(options.folder, 'nodatacow'));
  }

  /** Removes what only the copying needed. */
  dispose(): Promise<void> {
    return this.#reflinker.dispose();
  }

  /** Copies a file. @throws SafemigrateError `DISK`; `CLONE` if more bytes would be copied in full than allowed; the signal's reason. */
  async file(from: string, to: string): Promise<void> {
    this.#options.signal.throwIfAborted();
    try {
      await this.#content(from, to);
      this.own(to);
    } catch (error) {
      // Relations and their segments may disappear while the server works; the destination must not.
      if (codeOf(error) === 'ENOENT' && existsSync(path.dirname(to))) return;
      throw explain(error, from, to);
    }
  }

  /** Creates a folder like the original. @returns false if the original no longer exists. */
  folder(from: string, to: string): boolean {
    try {
      mkdirSync(to, { mode: statSync(from).mode & 0o777 });
      this.own(to);
      return true;
    } catch (error) {
      if (codeOf(error) === 'ENOENT' && existsSync(path.dirname(to))) return false;
      throw explain(error, from, to);
    }
  }

  own(place: string): void {
    const { owner } = this.#options;
    if (owner) lchownSync(place, owner.uid, owner.gid);
  }

  async #content(from: string, to: string): Promise<void> {
    if (this.#options.share) {
      try {
        return await this.#reflinker.clone(from, to);
      } catch (error) {
        if (!(error instanceof NotShared)) throw error;
      }
    }
    await this.#bytes(from, to);
  }

  async #bytes(from: string, to: string): Promise<void> {
    const { maxCopyBytes, signal } = this.#options;
    const { size, mode } = await stat(from);
    this.#copiedBytes += size;
    if (this.#copiedBytes > maxCopyBytes)
      throw new SafemigrateError(
        'CLONE',
        `More than ${formatBytes(maxCopyBytes)} would have to be copied in full, because blocks are not shared here.`,
        { hint: 'The clone was removed. Allow more with --limit copy, or take another method with --clone.' },
      );
    if (size <= CHUNK_BYTES) await copyFile(from, to, constants.COPYFILE_EXCL);
    else await copyInChunks(from, to, mode & 0o777, signal);
  }
}

/** Copies in chunks, since copyFile cannot be stopped and a segment of a relation may take seconds. */
async function copyInChunks(from: string, to: string, mode: number, signal: AbortSignal): Promise<void> {
  const source = await open(from, 'r');
  try {
    const target = await open(to, 'wx', mode);
    try {
      const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
      for (let position = 0; ; ) {
        signal.throwIfAborted();
        const { bytesRead } = await source.read(buffer, 0, CHUNK_BYTES, position);
        if (bytesRead === 0) return;
        await target.write(buffer, 0, bytesRead, position);
        position += bytesRead;
      }
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

function explain(error: unknown, from: string, to: string): unknown {
  const code = codeOf(error);
  if (error instanceof SafemigrateError || code === '') return error;
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new SafemigrateError('DISK', `There is no room left for the clone: ${to} could not be written.`, {
      hint: 'The incomplete clone was removed. Free some space, or name another folder with --clone-dir.',
      cause: error,
    });
  return new SafemigrateError('CLONE', `${from} could not be copied to ${to}: ${code}.`, {
    hint: 'The target was not changed, and the incomplete clone was removed.',
    cause: error,
  });
}

const run = promisify(execFile);

/** Two files cannot share blocks; their bytes can still be copied. The attempt leaves nothing behind. */
export class NotShared extends Error {
  override readonly name = 'NotShared';
}

/** Error codes for it. ZFS returns EAGAIN for blocks that it has not written yet. */
const REFUSALS = new Set(['ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'ENOTTY', 'EXDEV', 'EINVAL', 'EAGAIN']);

/**
 * Creates files that share all blocks with their original.
 *
 * On btrfs a file with the attribute nodatacow (`chattr +C`) shares blocks only with files that have it, too, and a new file
 * inherits the attribute from its folder. So if a plain attempt fails for that reason, the file is created in a folder with the
 * attribute and then moved, which keeps it.
 */
export class Reflinker {
  readonly #scratch: string;
  #nodatacow: Promise<void> | undefined;
  #count = 0;

  /** @param scratch a folder that does not exist, on the file system that the files go to; it is created on demand. */
  constructor(scratch: string) {
    this.#scratch = scratch;
  }

  /** Creates a file. @throws NotShared, or the system's error (`ENOENT`, `ENOSPC`, …). */
  async clone(from: string, to: string): Promise<void> {
    const refusal = await attempt(from, to);
    if (refusal === undefined) return;
    if (refusal !== 'EINVAL') throw new NotShared(`${from}: ${refusal}`);
    this.#nodatacow ??= makeNodatacow(this.#scratch);
    await this.#nodatacow;
    const between = path.join(this.#scratch, String(this.#count++));
    const again = await attempt(from, between);
    if (again !== undefined) throw new NotShared(`${from}: ${again}`);
    await rename(between, to);
  }

  async dispose(): Promise<void> {
    await rm(this.#scratch, { recursive: true, force: true });
  }
}

/** Flags for a new file. Root writes into folders of the server's user: O_EXCL keeps it from writing through a link there. */
const SHARED_AND_NEW = constants.COPYFILE_FICLONE_FORCE | constants.COPYFILE_EXCL;

/** Returns the refusal, if the error is one. */
async function attempt(from: string, to: string): Promise<string | undefined> {
  try {
    await copyFile(from, to, SHARED_AND_NEW);
    return undefined;
  } catch (error) {
    const code = codeOf(error);
    if (REFUSALS.has(code)) return code;
    throw error;
  }
}

/** @throws NotShared: a missing program must not look like a missing file. */
async function makeNodatacow(folder: string): Promise<void> {
  await mkdir(folder, { mode: 0o700 });
  await run('chattr', ['+C', folder]).catch((error: unknown) => {
    throw new NotShared(messageOf(error));
  });
}

/** A probe exists for milliseconds: an older one was left by a run that was killed. */
const STALE_MS = 10 * 60_000;
const PROBE = /^\.safemigrate_([0-9a-z]{13})_probe(_nodatacow)?$/;

/** Tries whether a file can share blocks with files in `parent`. Removes probes that killed runs have left. */
export async function probeReflink(file: string, parent: string, run: RunId): Promise<boolean> {
  await removeStaleProbes(parent);
  const place = path.join(parent, `.safemigrate_${run}_probe`);
  const reflinker = new Reflinker(`${place}_nodatacow`);
  try {
    await reflinker.clone(file, place);
    return true;
  } catch (error) {
    if (error instanceof NotShared) return false;
    throw error;
  } finally {
    await rm(place, { force: true });
    await reflinker.dispose();
  }
}

async function removeStaleProbes(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const run = parseRunId(PROBE.exec(name)?.[1] ?? '');
    if (run === undefined || Date.now() - startOf(run) < STALE_MS) continue;
    await rm(path.join(parent, name), { recursive: true, force: true });
  }
}
