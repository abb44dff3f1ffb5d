import { execFile } from 'node:child_process';
import { readFile, readlink, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The content of `postmaster.pid`. */
export interface PostmasterFile {
  readonly pid: number;
  /** Seconds since 1970. */
  readonly startedAt: number;
  readonly port: number;
}

/** The lines are process, data directory, start time, port, socket folder, address, shared memory, state. */
export function parsePostmasterFile(text: string): PostmasterFile | undefined {
  const lines = text.split('\n');
  const [pid, startedAt, port] = [0, 2, 3].map((line) => Number.parseInt(lines[line] ?? '', 10));
  if (!pid || !startedAt || !port) return undefined;
  return { pid, startedAt, port };
}

/** The first field of `global/pg_control`, in the byte order of the server's machine, which is this one. */
export function parseSystemIdentifier(control: Buffer): string {
  return (littleEndian() ? control.readBigUInt64LE(0) : control.readBigUInt64BE(0)).toString();
}

function littleEndian(): boolean {
  return new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
}

/** Reads a process's state. @returns undefined if there is no such process here. */
export async function parentOf(pid: number): Promise<number | undefined> {
  try {
    if (process.platform === 'linux') {
      const text = await readFile(`/proc/${pid}/stat`, 'utf8');
      // The program's name, in parentheses, may contain anything; the fields after it are state and parent.
      return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[1]);
    }
    const { stdout } = await run('ps', ['-o', 'ppid=', '-p', String(pid)]);
    return Number(stdout.trim()) || undefined;
  } catch {
    return undefined;
  }
}

/** Finds the folder of the process's program. @returns undefined if it cannot be read. */
export async function programsOf(pid: number): Promise<string | undefined> {
  try {
    // An upgrade of the package removes the file while the server runs.
    const file = (await readlink(`/proc/${pid}/exe`)).replace(/ \(deleted\)$/, '');
    await stat(file);
    return path.dirname(file);
  } catch {
    return undefined;
  }
}
