import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf, SafemigrateError } from '../errors.ts';

export interface CopiedOptions {
  /** Holds `data`; takes `server.pid` and `log`. */
  readonly folder: string;
  /** The folder of `postgres`. */
  readonly programs: string;
  /** Words that the server is started with in front of its own: see clone/private/sandbox.ts. They may start it as their child. */
  readonly through: readonly string[];
  /** Of the operating system; undefined for our own. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined;
  /** Settings that no file and no ALTER SYSTEM can change any more. */
  readonly settings: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

export interface CopiedServer {
  /** Settles with the end of its log when the server ends, for whatever reason. */
  readonly ended: Promise<string>;
}

/**
 * It writes its process number for the watchdog, which cage.sh replaces by that of the server. When memory runs out the kernel is to take it, and
 * not the original: 800 of 1000 points more than it had.
 */
const BEGINNING = `set -C && echo "$$" > server.pid && set +C || exit 1
[ ! -e /proc/self/oom_score_adj ] || echo 800 > /proc/self/oom_score_adj
exec "$@"`;

const POLL_MS = 10;

/**
 * Starts a server on a copied data directory, and waits until it has recovered. It outlives this process: a watchdog
 * (watchdog.ts) must know its folder already.
 * @throws SafemigrateError `CLONE` with the end of its log; `INTERRUPTED`.
 */
export async function startCopied(options: CopiedOptions): Promise<CopiedServer> {
  const { folder, signal } = options;
  const data = path.join(folder, 'data');
  const server = await launch(options);
  const exited = once(server, 'exit');
  const ended = exited.then(() => endOfLog(folder));
  let running = true;
  ended.finally(() => {
    running = false;
  });
  while (!(await isReady(data))) {
    if (!running || server.exitCode !== null || server.signalCode !== null) {
      throw new SafemigrateError('CLONE', `The server of the clone did not start:\n  ${await ended}`, {
        hint: 'The target was not touched by it.',
      });
    }
    signal.throwIfAborted();
    await delay(POLL_MS);
  }
  server.unref();
  return { ended };
}

async function launch({ folder, programs, through, user, settings }: CopiedOptions): Promise<ChildProcess> {
  const words = [...through, path.join(programs, 'postgres'), '-D', path.join(folder, 'data')];
  for (const [name, value] of Object.entries(settings)) words.push('-c', `${name}=${value}`);
  const log = await open(path.join(folder, 'log'), 'wx', 0o600);
  try {
    const server = spawn('/bin/sh', ['-c', BEGINNING, 'safemigrate-server', ...words], {
      cwd: folder,
      detached: true,
      // None of our PG* variables: the server would take some of them for its settings.
      env: { PATH: process.env.PATH },
      stdio: ['ignore', log.fd, log.fd],
      ...user,
    });
    await once(server, 'spawn');
    return server;
  } catch (error) {
    throw new SafemigrateError('CLONE', `The server of the clone could not be started: ${messageOf(error)}`, {
      cause: error,
    });
  } finally {
    await log.close();
  }
}

/**
 * postmaster.pid holds the server's state in its eighth line, as pg_ctl reads it. The copy has none of the original's. The number in
 * its first line is of the server's own PID namespace.
 */
async function isReady(data: string): Promise<boolean> {
  const text = await readFile(path.join(data, 'postmaster.pid'), 'utf8').catch(() => '');
  return text.split('\n')[7]?.trim() === 'ready';
}

async function endOfLog(folder: string): Promise<string> {
  const log = await readFile(path.join(folder, 'log'), 'utf8').catch(() => '');
  return log.trim().split('\n').slice(-8).join('\n  ');
}
