import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import * as z from 'zod/mini';
import { codeOf, messageOf, SafemigrateError } from '../errors.ts';
import { doubtOfFolder, type FolderEntry, type Owner, type StartOrder } from '../ownership/folder-records.ts';
import { livenessOf, ourStamp, processStampSchema } from '../ownership/process-stamp.ts';
import { shippedText } from '../package.ts';
import { startCloneReaper } from './clone-reaper.ts';
import { type CopiedServer, startCopied } from './copied.ts';

const execute = promisify(execFile);

/** Passed as a text: the owner of a clone's folder may not be allowed to read the file. */
const SCRIPT = shippedText('local-server/first-state.sh');

/** Saves the content of the clone's folder as its first state; its server has ended. @throws SafemigrateError `CLONE` */
export async function saveFirstState(folder: string, { owner, rollback }: StartOrder): Promise<void> {
  if (rollback) await shell(undefined, ['-c', rollback.save]);
  else await firstState(owner, 'save', folder);
}

/** Gives a clone's empty folder the first state of another clone. @throws SafemigrateError `CLONE` */
export async function takeFirstState(folder: string, from: string, { owner }: StartOrder): Promise<void> {
  await firstState(owner, 'take', folder, from);
}

/**
 * Starts a clone's server on its first state. No server may run there.
 * @throws SafemigrateError `CLONE`, `INTERRUPTED`
 */
export async function startFirstState(
  folder: string,
  start: StartOrder,
  signal: AbortSignal,
  endServer: () => Promise<void> = async () => {},
): Promise<CopiedServer> {
  const { owner, rollback } = start;
  await firstState(undefined, 'sweep', folder);
  if (!rollback) await firstState(owner, 'prepare', folder);
  await endServer();
  if (rollback) await shell(undefined, ['-c', rollback.restore]);
  await firstState(owner, rollback ? 'clear' : 'swap', folder);
  const server = await startCopied({ ...start, user: start.user, folder, signal });
  await firstState(undefined, 'sweep', folder);
  return server;
}

/**
 * Brings a clone back to its first state: ends its server and its sessions, shares the first state's files again, and starts it as
 * it was started. If this process is killed, the first state remains, and another reset repairs the clone.
 * @throws SafemigrateError `USAGE` for a clone that has no first state; `NOT_OURS`; `CLONE`, also if another process resets it now.
 */
export async function resetClone(entry: FolderEntry, signal: AbortSignal): Promise<void> {
  const { folder, run, start } = entry;
  if (!start)
    throw new SafemigrateError('USAGE', `${folder} cannot be reset.`, {
      hint: '`safemigrate clone` makes such clones. Nothing was changed.',
    });
  const doubt = await doubtOfFolder(folder, run);
  if (doubt) throw new SafemigrateError('NOT_OURS', `${folder} was not reset: ${doubt}.`);
  const unlock = await lockReset(folder);
  try {
    await startFirstState(folder, start, signal, () => endServer(entry));
  } finally {
    await unlock();
  }
}

/** The reaper knows how to end a server and its programs. */
async function endServer({ folder, run, socketFolder }: FolderEntry): Promise<void> {
  const reaper = await startCloneReaper({ folder, run, socketFolder, release: null, stopsOnly: true });
  if ((await reaper.end('gone')) !== 'gone')
    throw new SafemigrateError('CLONE', `The server in ${folder} could not be ended.`);
}

/** @param owner who runs it, if we are root; undefined for us. */
async function firstState(owner: Owner | undefined, ...words: string[]): Promise<void> {
  await shell(owner, ['-c', SCRIPT, 'safemigrate-first-state', ...words]);
}

async function shell(owner: Owner | undefined, words: string[]): Promise<void> {
  const isRoot = process.getuid?.() === 0;
  try {
    await execute('/bin/sh', words, { cwd: '/', ...(isRoot ? owner : {}) });
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
    const reason = said.split('\n').slice(0, 3).join('; ') || messageOf(error);
    throw new SafemigrateError('CLONE', `The first state of the clone could not be copied: ${reason}.`, {
      hint: 'A clone that can be reset must lie on a file system whose files can share blocks (XFS, btrfs, ZFS).',
      cause: error,
    });
  }
}

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
