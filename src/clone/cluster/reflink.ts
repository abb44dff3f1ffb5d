import { execFile } from 'node:child_process';
import { constants, copyFile, mkdir, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { codeOf, messageOf } from '../../errors.ts';
import { parseRunId, type RunId, startOf } from '../../ownership/run-id.ts';

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

/** As root we write into folders of the server's user: O_EXCL keeps us from writing through a link that exists there. */
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
