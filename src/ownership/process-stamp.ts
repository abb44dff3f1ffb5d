import { execFile } from 'node:child_process';
import { readFile, readlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** A process as another one can recognise it later: numbers are used again, numbers with a start time are not. */
export interface ProcessStamp {
  readonly pid: number;
  /** As the system tells it; compared, never read. */
  readonly started: string;
  /** Which start of which machine, and which of its worlds of process numbers (containers have their own). */
  readonly machine: string;
  readonly boot: string;
  readonly world: string;
}

/** `unknown`: it lived where this process cannot look. */
export type Liveness = 'alive' | 'dead' | 'unknown';

/** @returns undefined when there is no such process. */
export async function stampOf(pid: number): Promise<ProcessStamp | undefined> {
  const started = await startOf(pid);
  if (started === undefined) return undefined;
  return { pid, started, ...(await here()) };
}

export async function livenessOf(stamp: ProcessStamp): Promise<Liveness> {
  const { machine, boot, world } = await here();
  if (stamp.machine !== machine) return 'unknown';
  if (stamp.boot !== boot) return 'dead';
  if (stamp.world !== world) return 'unknown';
  return (await startOf(stamp.pid)) === stamp.started ? 'alive' : 'dead';
}

async function here(): Promise<Pick<ProcessStamp, 'machine' | 'boot' | 'world'>> {
  const text = (file: string) => readFile(file, 'utf8').then((content) => content.trim());
  const [machine, boot, world] = await Promise.all([
    text('/etc/machine-id').catch(() => hostname()),
    text('/proc/sys/kernel/random/boot_id').catch(() => ''),
    readlink('/proc/self/ns/pid').catch(() => ''),
  ]);
  return { machine: machine || hostname(), boot, world };
}

/** A process that ended and that nobody has collected yet counts as gone. */
async function startOf(pid: number): Promise<string | undefined> {
  if (process.platform !== 'linux') return startByPs(pid);
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    // The name of the program, in parentheses, may hold anything; state is the field after it, start time the 22nd.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

async function startByPs(pid: number): Promise<string | undefined> {
  try {
    const { stdout } = await run('ps', ['-o', 'stat=,lstart=', '-p', String(pid)]);
    const line = stdout.trim();
    return line.startsWith('Z') ? undefined : line.replace(/^\S+\s+/, '');
  } catch {
    return undefined;
  }
}
