import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** Distinguishes a process from a later one with the same id. */
  readonly started: string;
}

const LOOK_EVERY_MS = 50;
/** Indexes of fields in /proc/PID/stat, counted from the state, which follows the name in parentheses. */
const STATE = 0;
const PARENT = 1;
const GROUP = 2;
const START_TIME = 19;

/**
 * Ends a process and its descendants: SIGTERM, and after `graceMs` SIGKILL. It remembers the processes it has seen, since children
 * of a process that has ended get another parent; if the root leads a process group of its own, they are found by that, too.
 * Resolves when none is left.
 */
export async function endTree(root: number, graceMs: number): Promise<void> {
  const family = new Map<string, Process>();
  let living = await remember(root, family);
  send(living, 'SIGTERM');
  const deadline = performance.now() + graceMs;
  while (living.length > 0) {
    const late = performance.now() >= deadline;
    if (late) send(living, 'SIGKILL');
    await pause(LOOK_EVERY_MS);
    const known = new Set(living.map(keyOf));
    living = await remember(root, family);
    // Processes that started since then have not got the signal.
    if (!late)
      send(
        living.filter((process) => !known.has(keyOf(process))),
        'SIGTERM',
      );
  }
}

/** Lists the root and its descendants that are alive now. */
export async function livingTree(root: number): Promise<number[]> {
  return (await remember(root, new Map())).map(({ pid }) => pid);
}

/** Adds the root's current descendants to the family, and returns the members that are alive. */
async function remember(root: number, family: Map<string, Process>): Promise<Process[]> {
  const all = await listProcesses();
  const pids = new Set<number>();
  for (const process of all) {
    const isKnown = family.has(keyOf(process));
    const isRoot = process.pid === root && family.size === 0;
    if (isKnown || isRoot || process.group === root) pids.add(process.pid);
  }
  for (let grown = -1; grown !== pids.size; ) {
    grown = pids.size;
    for (const process of all) if (pids.has(process.parent)) pids.add(process.pid);
  }
  const living = all.filter(({ pid }) => pids.has(pid));
  for (const process of living) family.set(keyOf(process), process);
  return living;
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
  return process.platform === 'linux' ? await fromProc() : await fromPs();
}

async function fromProc(): Promise<Process[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid): Promise<Process | undefined> => {
      const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
      const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
      if (text === '' || fields[STATE] === 'Z' || fields[STATE] === 'X') return undefined;
      return {
        pid: Number(pid),
        parent: Number(fields[PARENT]),
        group: Number(fields[GROUP]),
        started: fields[START_TIME] ?? '',
      };
    }),
  );
  return found.filter((process) => process !== undefined);
}

async function fromPs(): Promise<Process[]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=,pgid=,stat=,lstart=']);
  return stdout.split('\n').flatMap((line) => {
    const [, pid, parent, group, state, started] =
      /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line) ?? [];
    if (pid === undefined || state?.startsWith('Z')) return [];
    return [{ pid: Number(pid), parent: Number(parent), group: Number(group), started: started ?? '' }];
  });
}
