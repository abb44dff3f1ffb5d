import { existsSync, lchownSync, mkdirSync, statSync } from 'node:fs';
import { constants, copyFile, open, stat } from 'node:fs/promises';
import path from 'node:path';
import { codeOf, SafemigrateError } from '../../errors.ts';
import { formatBytes } from '../../format.ts';
import { NotShared, type Reflinker } from './reflink.ts';

interface CopierOptions {
  /** Share blocks if the file system can. */
  readonly share: boolean;
  readonly reflinker: Reflinker;
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
  copiedBytes = 0;

  constructor(options: CopierOptions) {
    this.#options = options;
  }

  /** Copies a file. @throws SafemigrateError `DISK`; `CLONE` if more bytes would be copied in full than allowed; the signal's reason. */
  async file(from: string, to: string): Promise<void> {
    this.#options.signal.throwIfAborted();
    try {
      await this.#content(from, to);
      this.own(to);
    } catch (error) {
      // Relations and their segments may disappear while the server works; the destination must not.
      if (codeOf(error) === 'ENOENT' && (await exists(path.dirname(to)))) return;
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

  /** Synchronous: it is one short call, and through the thread pool each file would take a third longer. */
  own(place: string): void {
    const { owner } = this.#options;
    if (owner) lchownSync(place, owner.uid, owner.gid);
  }

  async #content(from: string, to: string): Promise<void> {
    const { share, reflinker } = this.#options;
    if (share) {
      try {
        return await reflinker.clone(from, to);
      } catch (error) {
        if (!(error instanceof NotShared)) throw error;
      }
    }
    await this.#bytes(from, to);
  }

  async #bytes(from: string, to: string): Promise<void> {
    const { maxCopyBytes, signal } = this.#options;
    const { size, mode } = await stat(from);
    this.copiedBytes += size;
    if (this.copiedBytes > maxCopyBytes)
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

async function exists(place: string): Promise<boolean> {
  return stat(place).then(
    () => true,
    () => false,
  );
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
