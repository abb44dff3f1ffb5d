import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { open, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { messageOf, SafemigrateError } from '../errors.ts';

/** The way to start a program in a folder that a watchdog knows. */
export interface WatchedFolder {
  /** Takes `server.pid`, and is the program's working directory. */
  readonly folder: string;
  /** Words that the program is started with in front of its own: see clone/private/sandbox.ts. They may start it as their child. */
  readonly through: readonly string[];
  /** User of the operating system; undefined for our own. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined;
}

export interface CopiedOptions extends WatchedFolder {
  /** The data directory. Default: `<folder>/data`. */
  readonly data?: string;
  /** A file for the server's log, which does not exist yet. Default: `<folder>/log`. */
  readonly log?: string;
  /** The folder of `postgres`. */
  readonly programs: string;
  /** Settings that no file and no ALTER SYSTEM can change any more. */
  readonly settings: Settings;
  readonly signal: AbortSignal;
}

type Settings = Readonly<Record<string, string>>;

export interface CopiedServer {
  /** Settles with the end of its log when the server ends, for whatever reason. */
  readonly ended: Promise<string>;
  /** Shuts the server down, with a checkpoint. Its sessions are terminated. @throws SafemigrateError `CLONE` if it is not found. */
  stop(): Promise<void>;
}

/**
 * Writes its process number for the watchdog, in place of that of the program before it; the sandbox's script replaces it by that of
 * the server. When memory runs out the kernel is to take it, and not the original: 800 of 1000 points more than it had.
 */
const BEGINNING = `{ [ ! -e server.pid ] && [ ! -L server.pid ]; } || rm -f server.pid
set -C && echo "$$" > server.pid && set +C || exit 1
[ ! -e /proc/self/oom_score_adj ] || echo 800 > /proc/self/oom_score_adj
exec "$@"`;

/** A server on a small copy is ready after 40 ms; a look at its file takes 0.03. */
const POLL_MS = 2;

/**
 * Starts a server on a copied data directory, and waits until it has recovered. It outlives this process: a watchdog
 * (clone-reaper.ts) must know its folder already.
 * @throws SafemigrateError `CLONE` with the end of its log; `INTERRUPTED`.
 */
export async function startCopied(options: CopiedOptions): Promise<CopiedServer> {
  const { folder, signal } = options;
  const { data = path.join(folder, 'data'), log = path.join(folder, 'log') } = options;
  const server = await launch(options, data, log);
  const exited = once(server, 'exit');
  const ended = exited.then(() => endOfLog(log));
  let running = true;
  ended.finally(() => {
    running = false;
  });
  while (!isReady(data)) {
    if (!running || server.exitCode !== null || server.signalCode !== null) {
      throw new SafemigrateError('CLONE', `The server of the clone did not start:\n  ${await ended}`, {
        hint: 'The target was not touched by it.',
      });
    }
    signal.throwIfAborted();
    await delay(POLL_MS);
  }
  // The next program in this folder writes its own.
  const pid = Number(await readFile(path.join(folder, 'server.pid'), 'utf8'));
  server.unref();
  return { ended, stop: () => stop(server, exited, pid, data) };
}

function settingWords(settings: Settings): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

/**
 * Sends SIGINT, PostgreSQL's fast shutdown. The server's user can write the file that its number was read from: only a process that
 * works in the data directory is signalled.
 */
async function stop(
  server: ChildProcess,
  exited: Promise<unknown>,
  pid: number,
  data: string,
): Promise<void> {
  const runs = () => server.exitCode === null && server.signalCode === null;
  server.ref();
  if (runs()) {
    const isServer = Number.isInteger(pid) && pid > 1 && (await worksIn(pid, data));
    if (isServer) process.kill(pid, 'SIGINT');
    else if (runs())
      throw new SafemigrateError('CLONE', `The process ${pid} is not the server in ${data}.`, {
        hint: 'Nothing was signalled; the clone is removed.',
      });
  }
  await exited;
}

async function launch(
  { programs, settings, ...place }: CopiedOptions,
  data: string,
  logFile: string,
): Promise<ChildProcess> {
  const postgres = [path.join(programs, 'postgres'), '-D', data, ...settingWords(settings)];
  const log = await open(logFile, 'wx', 0o600);
  try {
    return await launchWatched(place, postgres, log.fd);
  } catch (error) {
    throw new SafemigrateError('CLONE', `The server of the clone could not be started: ${messageOf(error)}`, {
      cause: error,
    });
  } finally {
    await log.close();
  }
}

/**
 * Starts a program that the watchdog of the folder ends with us. It gets none of our PG* variables: a server would take some of
 * them for its settings.
 * @param output takes standard output and errors.
 */
export async function launchWatched(
  { folder, through, user }: WatchedFolder,
  words: readonly string[],
  output: number | 'pipe',
  variables: NodeJS.ProcessEnv = {},
): Promise<ChildProcess> {
  const started = spawn('/bin/sh', ['-c', BEGINNING, 'safemigrate-server', ...through, ...words], {
    cwd: folder,
    detached: true,
    env: { PATH: process.env.PATH, ...variables },
    stdio: ['ignore', output, output],
    ...user,
  });
  await once(started, 'spawn');
  return started;
}

/**
 * postmaster.pid holds the server's state in its eighth line, as pg_ctl reads it. The copy has none of the original's. The number in
 * its first line is of the server's own PID namespace.
 */
function isReady(data: string): boolean {
  try {
    return readFileSync(path.join(data, 'postmaster.pid'), 'utf8').split('\n')[7]?.trim() === 'ready';
  } catch {
    return false;
  }
}

async function endOfLog(file: string): Promise<string> {
  const log = await readFile(file, 'utf8').catch(() => '');
  return log.trim().split('\n').slice(-8).join('\n  ');
}

const run = promisify(execFile);

/**
 * Says whether a server works in this data directory. macOS shows no working directories, but the command line, which need not
 * name the directory. @returns null if that cannot be found out.
 */
export async function worksIn(pid: number, folder: string): Promise<boolean | null> {
  try {
    if (process.platform !== 'linux') {
      const { stdout } = await run('ps', ['-o', 'command=', '-p', String(pid)]);
      return stdout.includes(` -D ${folder}`) || null;
    }
    const [there, here] = await Promise.all([stat(`/proc/${pid}/cwd`), stat(folder)]);
    return there.dev === here.dev && there.ino === here.ino;
  } catch {
    return null;
  }
}
