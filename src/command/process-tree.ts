import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { CommandCgroup } from './command-cgroup.ts';

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** Distinguishes a process from a later one with the same id. */
  readonly started: string;
  /** Its end has begun. */
  readonly exits: boolean;
}

const LOOK_EVERY_MS = 50;
/** Indexes of fields in /proc/PID/stat, counted from the state, which follows the name in parentheses. */
const STATE = 0;
const PARENT = 1;
const GROUP = 2;
const FLAGS = 6;
const START_TIME = 19;
/** PF_EXITING of the kernel's flags: it runs no code of a program any more. */
const EXITING = 0x4;

/**
 * A process and all that descends from it. It remembers the processes it has seen, since children of a process that has ended get
 * another parent. If the root leads a process group of its own, they are found by that, too; those that have left it as a daemon does,
 * by the command's cgroup, or without one by their environment.
 */
export class ProcessFamily {
  readonly root: number;
  readonly #cgroup: CommandCgroup | undefined;
  readonly #marker: string | undefined;
  readonly #known = new Map<string, Process>();
  readonly #since: bigint | undefined;
  #strangers: readonly number[] = [];

  /** @param marker a secret in the environment that only the command was given. */
  constructor(root: number, cgroup?: CommandCgroup, marker?: string) {
    this.root = root;
    this.#cgroup = cgroup;
    this.#marker = marker;
    this.#since = startOf(root);
  }

  /** Lists the ids of its members that are alive now. */
  async pids(): Promise<number[]> {
    return (await this.#living()).map(({ pid }) => pid);
  }

  /** Lists the ids of its members without those whose end has begun, which may take seconds on a busy machine. */
  async running(): Promise<number[]> {
    return (await this.#living()).filter(({ exits }) => !exits).map(({ pid }) => pid);
  }

  /**
   * Returns the ids of processes that had started since the command when pids() was called, and are not its own by any sign: a daemon
   * (cron, Docker) may have started one of them for it.
   */
  strangers(): readonly number[] {
    return this.#strangers;
  }

  /** Ends it: SIGTERM, and after `graceMs` SIGKILL. Resolves when no process is left. */
  async end(graceMs: number): Promise<void> {
    let living = await this.#living();
    send(living, 'SIGTERM');
    const deadline = performance.now() + graceMs;
    while (living.length > 0) {
      const late = performance.now() >= deadline;
      if (late) send(living, 'SIGKILL');
      await pause(LOOK_EVERY_MS);
      const before = new Set(living.map(keyOf));
      living = await this.#living();
      // Processes that started since then have not got the signal.
      if (!late)
        send(
          living.filter((process) => !before.has(keyOf(process))),
          'SIGTERM',
        );
    }
  }

  async #living(): Promise<Process[]> {
    const [cgroup, marker] = [this.#cgroup, this.#marker];
    const all = await listProcesses();
    const pids = new Set(cgroup?.pids());
    for (const process of all) {
      const isRoot = process.pid === this.root && this.#known.size === 0;
      if (this.#known.has(keyOf(process)) || isRoot || process.group === this.root) pids.add(process.pid);
    }
    addDescendants(all, pids);
    if (!cgroup && marker !== undefined) {
      const later = all.filter((each) => !pids.has(each.pid) && ticksOf(each) >= (this.#since ?? 0n));
      for (const { pid } of later) if (await hasInEnvironment(pid, marker)) pids.add(pid);
      addDescendants(all, pids);
    }
    // While it starts the command, our own process is in its cgroup.
    const living = all.filter(({ pid }) => pids.has(pid) && pid !== process.pid);
    for (const member of living) this.#known.set(keyOf(member), member);
    const since = this.#since;
    this.#strangers = all
      .filter((each) => since !== undefined && ticksOf(each) >= since && !pids.has(each.pid))
      .map(({ pid }) => pid);
    return living;
  }
}

function addDescendants(all: readonly Process[], pids: Set<number>): void {
  for (let grown = -1; grown !== pids.size; ) {
    grown = pids.size;
    for (const process of all) if (pids.has(process.parent)) pids.add(process.pid);
  }
}

/**
 * The start of a command that has just begun, in ticks of the clock since the boot; undefined if it has ended, or not on Linux. It is read at
 * once: after a short command every process of the machine would count as a later one, and its environment would be read.
 */
function startOf(pid: number): bigint | undefined {
  const process = processIn(readOrEmpty(`/proc/${pid}/stat`));
  return process && ticksOf(process);
}

/** Its start in ticks of the clock since the boot, on Linux. */
function ticksOf({ started }: Process): bigint {
  return /^\d+$/.test(started) ? BigInt(started) : 0n;
}

async function hasInEnvironment(pid: number, marker: string): Promise<boolean> {
  const text = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '');
  return pid !== process.pid && text.includes(marker);
}

function send(processes: readonly Process[], signal: NodeJS.Signals): void {
  for (const { pid } of processes) signalProcess(pid, signal);
}

/** Sends a signal to a process (or with a negative id to a group) that may have ended. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && (error.code === 'ESRCH' || error.code === 'EPERM')))
      throw error;
  }
}

function keyOf({ pid, started }: Process): string {
  return `${pid} ${started}`;
}

/** Lists processes without zombies, which have ended. */
async function listProcesses(): Promise<Process[]> {
  return process.platform === 'linux' ? fromProc() : await fromPs();
}

/** Reads /proc synchronously: 250 processes take some 4 ms, and with a promise for each ten times as long. */
function fromProc(): Process[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => processIn(readOrEmpty(`/proc/${pid}/stat`)) ?? []);
}

/** Reads /proc/PID/stat. @returns undefined if the process has ended. */
export function processIn(stat: string): Process | undefined {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (stat === '' || fields[STATE] === 'Z' || fields[STATE] === 'X') return undefined;
  const [parent, group, started = ''] = [fields[PARENT], fields[GROUP], fields[START_TIME]];
  const exits = (Number(fields[FLAGS]) & EXITING) !== 0;
  return { pid: Number.parseInt(stat, 10), parent: Number(parent), group: Number(group), started, exits };
}

/** Returns an empty text if the process has ended. */
function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

async function fromPs(): Promise<Process[]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=,pgid=,stat=,lstart=']);
  return stdout.split('\n').flatMap((line) => {
    const [, pid, parent, group, state, started] =
      /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line) ?? [];
    if (pid === undefined || state?.startsWith('Z')) return [];
    return [
      {
        pid: Number(pid),
        parent: Number(parent),
        group: Number(group),
        started: started ?? '',
        // E: the process is trying to exit.
        exits: state?.includes('E') ?? false,
      },
    ];
  });
}
