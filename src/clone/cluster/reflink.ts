import { execFile } from 'node:child_process';
import { constants, copyFile, mkdir, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { messageOf } from '../../errors.ts';
import { parseRunId, type RunId, startOf } from '../../ownership/run-id.ts';

const run = promisify(execFile);

/** Two files cannot share blocks; their bytes can still be copied. Nothing is left of the attempt. */
export class NotShared extends Error {
  override readonly name = 'NotShared';
}

/** The system's words for it. ZFS says EAGAIN for blocks that it has not written yet. */
const REFUSALS = new Set(['ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'ENOTTY', 'EXDEV', 'EINVAL', 'EAGAIN']);

/**
 * Makes files that share all blocks with the file they come from.
 *
 * btrfs lets a file with the attribute nodatacow (`chattr +C`) share blocks with its like only, and a new file gets the
 * attribute from its folder. So where a plain attempt meets that, the file is made in a folder that has the attribute, and
 * moved from there to its place, which keeps it.
 */
export class Reflinker {
  readonly #scratch: string;
  #nodatacow: Promise<void> | undefined;
  #count = 0;

  /** @param scratch a folder that does not exist, on the file system that the files go to; it is made when it is needed. */
  constructor(scratch: string) {
    this.#scratch = scratch;
  }

  /** @throws NotShared, or the system's error (`ENOENT`, `ENOSPC`, …). */
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

/** As root we write into folders of the server's user: nothing that may stand there already is written through. */
const SHARED_AND_NEW = constants.COPYFILE_FICLONE_FORCE | constants.COPYFILE_EXCL;

/** @returns the refusal, if it was one. */
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

/** A probe lives for milliseconds: one whose run began so long ago was left by a tool that was killed meanwhile. */
const STALE_MS = 10 * 60_000;
const PROBE = /^\.safemigrate_([0-9a-z]{13})_probe(_nodatacow)?$/;

/** Whether a file can share blocks with files in `parent`, found out by doing it. Removes what a killed run left of that. */
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

/** The system's code of an error: `ENOENT`; empty for anything else. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}
