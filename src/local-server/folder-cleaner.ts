import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile, realpath } from 'node:fs/promises';
import { Socket } from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { SafemigrateError } from '../errors.ts';
import {
  entryFile,
  type FolderEntry,
  makeFolder,
  markFolder,
  writeEntry,
} from '../ownership/folder-records.ts';
import { ourStamp, stampOf } from '../ownership/process-stamp.ts';
import { newRunId } from '../ownership/run-id.ts';
import { shippedText } from '../package.ts';

const SCRIPT = shippedText('local-server/folder-cleaner.sh');

/** A small process of its own that outlives us by as long as it takes to clean up. */
export interface FolderCleaner {
  readonly pid: number;
  /** Starts a program in a process group of its own that the guard knows about before the program runs. */
  launch(file: string, args: string[], options: LaunchOptions): Promise<ChildProcess>;
  /** Ends what still runs and removes the folder. @throws SafemigrateError `SERVER` when the folder is still there. */
  dismiss(): Promise<void>;
}

/** Asks a program of launch() and all that it has forked to end; what they run on a server they cancel then. */
function endGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGTERM');
  } catch {
    // Nothing of it is left.
  }
}

/** A folder, and who removes it. */
export interface GuardedFolder {
  readonly folder: string;
  readonly guard: FolderCleaner;
}

export interface LaunchOptions {
  readonly environment: NodeJS.ProcessEnv;
  /** Its working directory. Default: the root folder. */
  readonly folder?: string;
  /** The user to run as; undefined for our own. */
  readonly uid?: number | undefined;
  /** File descriptor that takes the program's output. */
  readonly output: number;
}

/**
 * Watches over `folder`, which is best made after this call: the guard removes it also if we are cut off right here.
 * @param record a file that goes after it.
 */
export function guardFolder(folder: string, record = ''): FolderCleaner {
  const guard = spawn('/bin/sh', ['-c', SCRIPT, 'safemigrate-guard', folder, record], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const ended = once(guard, 'exit');
  ended.catch(() => {});
  guard.stdin.on('error', () => {});
  guard.unref();
  // Node's types do not say that a child's pipe is a socket.
  if (guard.stdin instanceof Socket) guard.stdin.unref();

  const announce = (group: string) =>
    new Promise<void>((resolve, reject) => {
      guard.stdin.write(`${group}\n`, (error) => (error ? reject(error) : resolve()));
    });

  return {
    pid: guard.pid ?? 0,
    async launch(file, args, { environment, uid, output, folder: cwd = '/' }) {
      // The shell waits for a line from us, so that there is no moment at which the program runs unknown to the guard.
      const child = spawn('/bin/sh', ['-c', 'read -r line && exec "$0" "$@"', file, ...args], {
        cwd,
        detached: true,
        env: environment,
        stdio: ['pipe', output, output],
        ...(uid === undefined ? {} : { uid, gid: uid }),
      });
      child.stdin?.on('error', () => {});
      await once(child, 'spawn');
      child.once('exit', () => {
        // What it has forked may go on without it: the WAL receiver of pg_basebackup holds up its target's server.
        endGroup(child.pid);
        announce('').catch(() => {});
      });
      await announce(String(child.pid));
      child.stdin?.end('go\n');
      return child;
    },
    async dismiss() {
      guard.ref();
      guard.stdin.end();
      const [code] = (await ended) as [number | null];
      if (code === 0) return;
      throw new SafemigrateError('SERVER', `the folder ${folder} of a private server could not be removed`, {
        hint: `Remove it yourself: rm -rf ${folder}`,
      });
    },
  };
}

/**
 * A folder for what this process needs on this machine for a while, which may be a copy of the target's data: recorded,
 * guarded, made and marked, in this order. It goes when its guard is dismissed or we end in whatever way; where the guard
 * was killed as well, or the machine lost its power, with `safemigrate clean`.
 * @param parent takes it.
 * @param of what it belongs to, for people.
 * @throws SafemigrateError `CONFIGURATION` where it cannot be recorded, `CLONE` where it cannot be made.
 */
export async function makeWorkFolder(
  parent: string,
  holds: FolderEntry['holds'],
  of: string,
): Promise<GuardedFolder> {
  // Its own, not the run's, which may need several.
  const run = newRunId();
  const folder = path.join(await realpath(parent).catch(() => parent), `safemigrate_${run}`);
  const entry: FolderEntry = {
    version: 1,
    run,
    holds,
    folder,
    socketFolder: path.join(folder, 'socket'),
    target: of,
    endsAt: null,
    kept: false,
    owner: await ourStamp(),
    watchdog: null,
    release: null,
  };
  await writeEntry(entry);
  const guard = guardFolder(folder, entryFile(run));
  try {
    await writeEntry({ ...entry, watchdog: (await stampOf(guard.pid)) ?? null });
    await makeFolder(folder);
    await markFolder(folder, run);
    return { folder, guard };
  } catch (error) {
    await guard.dismiss().catch(() => {});
    throw error;
  }
}

const PROGRESS_EVERY_MS = 300;
const ENDING_MS = 5_000;
const SHOWN_LINES = 12;

/**
 * Runs a program to its end, with its output in the file `log` of the folder, which is removed then. The signal ends the program
 * and all that it has forked; one that does not end is left to the guard.
 * @param onProgress is called several times a second.
 * @returns the end of its output if it failed; null if it succeeded. @throws the signal's reason.
 */
export async function runGuarded(
  { folder, guard }: GuardedFolder,
  [program = '', ...words]: readonly string[],
  options: Omit<LaunchOptions, 'output'>,
  signal: AbortSignal,
  onProgress: () => Promise<void>,
): Promise<string | null> {
  try {
    signal.throwIfAborted();
    const log = await open(path.join(folder, 'log'), 'wx', 0o600);
    try {
      const child = await guard.launch(program, words, { ...options, output: log.fd });
      const ended = once(child, 'exit').then(([code]) => code as number | null);
      const stop = () => endGroup(child.pid);
      signal.addEventListener('abort', stop, { once: true });
      if (signal.aborted) stop();
      const watching = repeatUntil(ended, onProgress);
      const code = await Promise.race([ended, afterAbort(signal)]);
      signal.removeEventListener('abort', stop);
      signal.throwIfAborted();
      await watching;
      if (code === 0) return null;
    } finally {
      await log.close();
    }
    const said = await readFile(path.join(folder, 'log'), 'utf8').catch(() => '');
    const lines = said.trim().split('\n').slice(-SHOWN_LINES);
    return lines.map((line) => `  ${line}`).join('\n');
  } finally {
    await guard.dismiss();
  }
}

/** Settles only after an abort, once the program has had time to end. */
function afterAbort(signal: AbortSignal): Promise<null> {
  return new Promise((resolve) => {
    const late = () => void delay(ENDING_MS, undefined, { ref: false }).then(() => resolve(null));
    if (signal.aborted) late();
    else signal.addEventListener('abort', late, { once: true });
  });
}

async function repeatUntil(ended: Promise<unknown>, work: () => Promise<void>): Promise<void> {
  let running = true;
  const settled = ended.then(() => {
    running = false;
  });
  while (running) {
    await work();
    await Promise.race([settled, delay(PROGRESS_EVERY_MS)]);
  }
}
