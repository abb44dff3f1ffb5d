import type { EventEmitter } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { messageOf, SafemigrateError } from '../errors.ts';
import { endTree, signalProcess } from './process-tree.ts';

export type InterruptSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP' | 'SIGQUIT';

/** The signals that our own process gets, as events of the CLI. */
export type Interrupts = EventEmitter<{ signal: [InterruptSignal] }>;

export interface RunOptions {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly folder: string;
  /** `stderr` if the report uses our own stdout. */
  readonly stdout: 'inherit' | 'stderr';
  /** There is a terminal: the command must stay in our process group to use it. */
  readonly terminal: boolean;
  /** 0 is no limit. */
  readonly timeoutMs: number;
  readonly interrupts: Interrupts;
  /** Ends the command as the timeout does. */
  readonly signal?: AbortSignal;
  /** Gets the process id as soon as the command runs. */
  readonly onStart?: (pid: number) => void;
  /** Starts the command elsewhere than in a child process of ours: in its sandbox. */
  readonly start?: StartCommand | undefined;
  /** Between SIGTERM and SIGKILL; default 10,000. */
  readonly graceMs?: number;
}

/** @throws Error if the command cannot be started. */
export type StartCommand = (command: Pick<RunOptions, 'argv' | 'env' | 'folder'>) => Promise<StartedCommand>;

interface StartedCommand {
  /** The process, or the one that it runs under. */
  readonly pid: number;
  readonly ended: Promise<Pick<CommandResult, 'exitCode' | 'signal'>>;
}

export interface CommandResult {
  /** null if a signal ended it. */
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly timedOut: boolean;
  readonly durationMs: number;
  readonly pid: number;
}

const DEFAULT_GRACE_MS = 10_000;
const STDERR = 2;

/**
 * Runs the command with our own stdin, stdout and stderr until it ends.
 *
 * On a terminal it shares our process group: in a group of its own it would lose /dev/tty, and Ctrl-C reaches it directly. Otherwise
 * it leads a group of its own, to which we pass signals on. The first SIGINT lets it end by itself; SIGTERM, SIGHUP, SIGQUIT, the
 * timeout and the abort end it and its descendants, by SIGTERM first; a second signal kills.
 * @throws SafemigrateError `COMMAND` if it cannot be started.
 */
export async function runCommand(options: RunOptions): Promise<CommandResult> {
  const { terminal, interrupts, signal, graceMs = DEFAULT_GRACE_MS } = options;
  const startedAt = performance.now();
  const { pid, ended } = await started(options);
  options.onStart?.(pid);

  let timedOut = false;
  let signals = 0;
  let ending: Promise<void> | undefined;
  const end = (grace: number) => {
    ending ??= endTree(pid, grace);
  };
  const onSignal = (received: InterruptSignal) => {
    signals += 1;
    if (signals > 1) {
      ending = Promise.all([ending, endTree(pid, 0)]).then(() => {});
      return;
    }
    if (received !== 'SIGINT') end(graceMs);
    else if (!terminal) signalProcess(-pid, received);
  };
  const onAbort = () => end(graceMs);
  const timer =
    options.timeoutMs > 0
      ? setTimeout(() => {
          timedOut = true;
          end(graceMs);
        }, options.timeoutMs)
      : undefined;
  interrupts.on('signal', onSignal);
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted) onAbort();
  try {
    const { exitCode, signal } = await ended;
    const durationMs = performance.now() - startedAt;
    await ending;
    return { exitCode, signal, timedOut, durationMs, pid };
  } finally {
    clearTimeout(timer);
    interrupts.off('signal', onSignal);
    signal?.removeEventListener('abort', onAbort);
  }
}

async function started(options: RunOptions): Promise<StartedCommand> {
  const { argv, env, folder, start = startChild(options) } = options;
  try {
    return await start({ argv, env, folder });
  } catch (error) {
    throw notStarted(argv[0] ?? '', error);
  }
}

function startChild({ stdout, terminal }: RunOptions): StartCommand {
  return async ({ argv: [program = '', ...args], env, folder }) => {
    const { execa } = await import('execa');
    const child = execa(program, args, {
      cwd: folder,
      env,
      extendEnv: false,
      stdin: 'inherit',
      stdout: stdout === 'stderr' ? STDERR : 'inherit',
      stderr: 'inherit',
      detached: !terminal,
      reject: false,
      buffer: false,
      // By default execa listens for the end of our process, which the CLI handles.
      cleanup: false,
    });
    const { pid } = child;
    if (pid === undefined) throw (await child).cause;
    const ended = child.then(({ exitCode = null, signal = null }) => ({ exitCode, signal }));
    return { pid, ended };
  };
}

/** Says whether our process has a terminal, even if stdin, stdout and stderr are redirected. */
export function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r+'));
    return true;
  } catch {
    return false;
  }
}

function notStarted(program: string, cause: unknown): SafemigrateError {
  return new SafemigrateError('COMMAND', `The command "${program}" cannot be started: ${messageOf(cause)}`, {
    cause,
  });
}
