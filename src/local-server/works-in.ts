import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { promisify } from 'node:util';

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
