import type { EventEmitter } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { messageOf, SafemigrateError } from '../errors.ts';
import { type CommandCgroup, startInCgroup } from './command-cgroup.ts';
import { nameOfProgram } from './process-sockets.ts';
import { ProcessFamily, signalProcess } from './process-tree.ts';

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
  /** Aborted by the first of them: what came before the command ran, or while it was started, ends it. */
  readonly interrupted?: AbortSignal | undefined;
  /** Ends the command as the timeout does. */
  readonly signal?: AbortSignal;
  /** Gets the command's processes as soon as it runs. */
  readonly onStart?: (family: ProcessFamily) => void;
  /** A secret in its environment that no other process was given: its daemons are recognised by it if there is no cgroup. */
  readonly marker?: string | undefined;
  /** Starts the command elsewhere than in a child process of ours: in its sandbox. */
  readonly start?: StartCommand | undefined;
  /** Between SIGTERM and SIGKILL; default 10,000. */
  readonly graceMs?: number;
}

/** @throws Error if the command cannot be started. */
export type StartCommand = (command: Pick<RunOptions, 'argv' | 'env' | 'folder'>) => Promise<{
  /** The process, or the one that it runs under. */
  readonly pid: number;
  readonly ended: Promise<Pick<CommandResult, 'exitCode' | 'signal'>>;
  /** Its processes belong to it. */
  readonly cgroup?: CommandCgroup | undefined;
}>;

export interface CommandResult {
  /** null if a signal ended it. */
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly timedOut: boolean;
  readonly durationMs: number;
  readonly pid: number;
  /** Processes of this machine that the kernel ended meanwhile because memory ran out, if the command may be one of them. */
  readonly endedForMemory?: number;
  /** Processes that still run, with their command lines: the command ended without them. */
  readonly leftRunning: readonly { readonly pid: number; readonly command: string }[];
}

const DEFAULT_GRACE_MS = 10_000;
const STDERR = 2;
const LEAVE_WITHIN_MS = 300;
const LOOK_EVERY_MS = 50;

/**
 * Runs the command with our own stdin, stdout and stderr until it ends.
 *
 * On a terminal it shares our process group: in a group of its own it would lose /dev/tty, and Ctrl-C reaches it directly. Otherwise
 * it leads a group of its own, to which we pass signals on. The first SIGINT lets it end by itself; SIGTERM, SIGHUP, SIGQUIT, the
 * timeout and the abort end it and its descendants, by SIGTERM first; a second signal kills.
 * @throws SafemigrateError `COMMAND` if it cannot be started.
 */
export async function runCommand(options: RunOptions): Promise<CommandResult> {
  const start = options.start ?? (await childStarter(options));
  const startedAt = performance.now();
  const killsBefore = memoryKills();
  const command = await started(options, start);
  try {
    const result = await whileItRuns(command, startedAt, options);
    const endedForMemory = wasKilled(result) ? memoryKills() - killsBefore : 0;
    return endedForMemory > 0 ? { ...result, endedForMemory } : result;
  } finally {
    command.cgroup?.dissolve();
  }
}

/** A shell gives the exit code of a program that was killed. */
function wasKilled({ exitCode, signal }: CommandResult): boolean {
  return signal === 'SIGKILL' || exitCode === 128 + constants.signals.SIGKILL;
}

/** Number of processes that the kernel has ended because memory ran out, of the machine or of a cgroup; 0 if it does not count. */
function memoryKills(): number {
  if (process.platform !== 'linux') return 0;
  try {
    return Number(/^oom_kill (\d+)$/m.exec(readFileSync('/proc/vmstat', 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

async function whileItRuns(
  { pid, ended, cgroup }: Awaited<ReturnType<StartCommand>>,
  startedAt: number,
  options: RunOptions,
): Promise<CommandResult> {
  const { terminal, interrupts, interrupted, signal, graceMs = DEFAULT_GRACE_MS, marker } = options;
  const family = new ProcessFamily(pid, cgroup, marker);
  options.onStart?.(family);

  let timedOut = false;
  let signals = 0;
  let ending: Promise<void> | undefined;
  const end = (grace: number) => {
    ending ??= family.end(grace);
  };
  const onSignal = (received: InterruptSignal) => {
    signals += 1;
    if (signals > 1) {
      ending = Promise.all([ending, family.end(0)]).then(() => {});
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
  if (signal?.aborted || interrupted?.aborted) onAbort();
  try {
    const { exitCode, signal } = await ended;
    const durationMs = performance.now() - startedAt;
    await ending;
    const leftRunning = await leftBy(family);
    return { exitCode, signal, timedOut, durationMs, pid, leftRunning };
  } finally {
    clearTimeout(timer);
    interrupts.off('signal', onSignal);
    signal?.removeEventListener('abort', onAbort);
  }
}

/** Names who is still there; helpers that are just ending get a moment for it. */
async function leftBy(family: ProcessFamily): Promise<CommandResult['leftRunning']> {
  const deadline = performance.now() + LEAVE_WITHIN_MS;
  let pids = await family.pids();
  while (pids.length > 0 && performance.now() < deadline) {
    await pause(LOOK_EVERY_MS);
    pids = await family.pids();
  }
  const running = pids.length === 0 ? [] : await family.running();
  return Promise.all(running.map(async (pid) => ({ pid, command: await nameOfProgram(pid) })));
}

async function started({ argv, env, folder }: RunOptions, start: StartCommand) {
  try {
    return await start({ argv, env, folder });
  } catch (error) {
    throw notStarted(argv[0] ?? '', error);
  }
}

/** Loads what starts child processes: 50 ms that are not the command's. */
async function childStarter({
  stdout,
  terminal,
}: Pick<RunOptions, 'stdout' | 'terminal'>): Promise<StartCommand> {
  const { execa } = await import('execa');
  return async ({ argv: [program = '', ...args], env, folder }) => {
    const spawn = () =>
      execa(program, args, {
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
    const { started: child, cgroup } = startInCgroup(spawn);
    const { pid } = child;
    if (pid === undefined) {
      cgroup?.dissolve();
      throw (await child).cause;
    }
    const ended = child.then(({ exitCode = null, signal = null }) => ({ exitCode, signal }));
    return { pid, ended, cgroup };
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
