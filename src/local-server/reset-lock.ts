import { randomBytes } from 'node:crypto';
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import * as z from 'zod/mini';
import { codeOf, SafemigrateError } from '../errors.ts';
import { ourStamp, processStampSchema } from '../ownership/folder-records.ts';
import { livenessOf } from '../ownership/process-stamp.ts';

/**
 * Takes the lock of the clone in this folder: a file with the stamp of the process that holds it. That of a dead process is taken
 * over. @returns what gives it back.
 * @throws SafemigrateError `CLONE` if another process has it.
 */
export async function lockReset(folder: string): Promise<() => Promise<void>> {
  return take(path.join(folder, 'reset.lock'), folder);
}

async function take(file: string, folder: string): Promise<() => Promise<void>> {
  const own = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`;
  await writeFile(own, JSON.stringify(await ourStamp()), { flag: 'wx' });
  try {
    if (!(await isLinked(own, file))) await takeOver(own, file, folder);
  } finally {
    await rm(own, { force: true });
  }
  return () => rm(file, { force: true });
}

/** Replaces the lock of a dead process. Only who has the lock for that does it, or two could replace one after the other. */
async function takeOver(own: string, file: string, folder: string): Promise<void> {
  await refuseLiving(file, folder);
  const release = await take(`${file}.next`, folder);
  try {
    if (await refuseLiving(file, folder)) await rename(own, file);
    // Somebody else has replaced it before, and given it back.
    else if (!(await isLinked(own, file))) throw busy(folder, 'another process');
  } finally {
    await release();
  }
}

async function isLinked(own: string, file: string): Promise<boolean> {
  try {
    await link(own, file);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
}

/** Returns whether there is the lock of a dead process. */
async function refuseLiving(file: string, folder: string): Promise<boolean> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (text === undefined) return false;
  const stamp = z.safeParse(processStampSchema, parsed(text)).data;
  if (!stamp || (await livenessOf(stamp)) === 'dead') return true;
  throw busy(folder, `the process ${stamp.pid}`);
}

function busy(folder: string, holder: string): SafemigrateError {
  return new SafemigrateError('CLONE', `The clone in ${folder} is being reset by ${holder}.`, {
    hint: 'Nothing was changed. Wait for it to end.',
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
