import { execFile } from 'node:child_process';
import { access, readdir, rename } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { messageOf } from '../../errors.ts';
import type { Owner } from '../../ownership/folder-records.ts';

const execute = promisify(execFile);

/**
 * A server in a sandbox reaches no archive. So its restore_command asks in a folder for each file, by `<name>.wanted`, and waits
 * for `<name>.done` or `<name>.missing`; this process fetches the file with the user's command.
 */
const POLL_MS = 20;

/** Files that recovery asks for: segments, the label of a backup, histories of timelines. */
const WAL_FILE = /^([0-9A-F]{24}(\.[0-9A-F]{8}\.backup)?|[0-9A-F]{8}\.history)$/;

/** Returns the server's restore_command. @param spool the folder. */
export function restoreCommandFor(spool: string): string {
  const file = `'${spool.replaceAll("'", `'\\''`).replaceAll('%', '%%')}'/%f`;
  return [
    `: > ${file}.wanted`,
    `until [ -e ${file}.done ] || [ -e ${file}.missing ]; do sleep 0.02; done`,
    `if [ -e ${file}.missing ]; then rm ${file}.missing; exit 1; fi`,
    `rm ${file}.done && mv ${file} "%p"`,
  ].join('; ');
}

export interface MissingWal {
  readonly name: string;
  /** The output of the command. */
  readonly said: string;
}

/**
 * Supplies a server with WAL until it is ended.
 * @param command the user's, with %f and %p.
 * @param owner who runs it, if we are root.
 */
export function supplyWal(spool: string, command: string, owner: Owner) {
  /** Segments that the archive did not have, in the order in which they were asked for. */
  const missing: MissingWal[] = [];
  let ended = false;
  const work = async () => {
    while (!ended) {
      for (const wanted of await readdir(spool)) {
        const name = wanted.replace(/\.wanted$/, '');
        if (name === wanted) continue;
        const place = path.join(spool, name);
        const failure = WAL_FILE.test(name) ? await fetchFile(command, name, place, owner) : '';
        if (failure !== null && /^[0-9A-F]{24}$/.test(name)) missing.push({ name, said: failure });
        // The request becomes the answer: a second one comes after it only.
        await rename(path.join(spool, wanted), `${place}.${failure === null ? 'done' : 'missing'}`);
      }
      await delay(POLL_MS);
    }
  };
  const working = work();
  // Its error is that of end().
  working.catch(() => {});
  return {
    missing,
    /** Ends after the request under way. @throws the error of what could not be done in the folder. */
    async end() {
      ended = true;
      await working;
    },
  };
}

/** Returns null if the file is there then, else what the command printed. */
async function fetchFile(command: string, name: string, place: string, owner: Owner): Promise<string | null> {
  const values: Record<string, string> = { '%f': name, '%p': place, '%r': name, '%%': '%' };
  const words = command.replace(/%[fpr%]/g, (mark) => values[mark] ?? mark);
  const user = process.getuid?.() === 0 ? owner : {};
  try {
    await execute('/bin/sh', ['-c', words], { cwd: path.dirname(place), ...user });
    await access(place);
    return null;
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr) : messageOf(error);
    return said.trim().split('\n').slice(-2).join('; ');
  }
}
