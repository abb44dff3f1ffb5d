import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { messageOf, SafemigrateError } from '../errors.ts';
import { doubtOfFolder, type Owner } from '../ownership/folder-mark.ts';
import { entryFile, type FolderEntry, type StartOrder } from '../ownership/folder-records.ts';
import { shippedFile } from '../package.ts';
import { startCloneReaper } from './clone-reaper.ts';
import { type CopiedServer, startCopied } from './copied.ts';
import { lockReset } from './reset-lock.ts';

const execute = promisify(execFile);

/** Passed as a text: the owner of a clone's folder may not be allowed to read the file. */
const SCRIPT = readFileSync(shippedFile('local-server/first-state.sh'), 'utf8');

/** Makes what is in the clone's folder its first state; its server has ended. @throws SafemigrateError `CLONE` */
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

/** The reaper knows how to end a server and what it has started. */
async function endServer({ folder, run, socketFolder }: FolderEntry): Promise<void> {
  const reaper = await startCloneReaper({
    folder,
    run,
    socketFolder,
    entry: entryFile(run),
    ttlMs: 0,
    floorBytes: 0,
    release: null,
    stopsOnly: true,
  });
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
