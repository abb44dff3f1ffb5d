import { execFile } from 'node:child_process';
import { readFile, readlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import { promisify } from 'node:util';
import * as z from 'zod/mini';

const run = promisify(execFile);

/** Identifies a process for later: process ids are reused, but not together with the start time. */
export const processStampSchema = z.object({
  pid: z.int().check(z.positive()),
  /** Start time in the system's format, only compared. */
  started: z.string(),
  /** Boot of the machine and its pid namespace (containers have their own). */
  machine: z.string(),
  boot: z.string(),
  world: z.string(),
});

export type ProcessStamp = Readonly<z.infer<typeof processStampSchema>>;

/** `unknown`: the process was in a pid namespace that this process cannot see. */
export type Liveness = 'alive' | 'dead' | 'unknown';

/** Reads the stamp. @returns undefined if there is no such process. */
export async function stampOf(pid: number): Promise<ProcessStamp | undefined> {
  const started = await startOf(pid);
  if (started === undefined) return undefined;
  return { pid, started, ...(await here()) };
}

/** Describes this process as the owner of what it creates. */
export async function ourStamp(): Promise<ProcessStamp> {
  const stamp = await stampOf(process.pid);
  if (stamp === undefined) throw new Error('a process that runs is found by its number');
  return stamp;
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

/** A zombie counts as gone. */
async function startOf(pid: number): Promise<string | undefined> {
  if (process.platform !== 'linux') return startByPs(pid);
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    // The name of the program, in parentheses, may contain anything; the state follows it, the start time is field 22.
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
