import { execFile } from 'node:child_process';
import { readFile, readlink, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { messageOf } from '../../errors.ts';
import { worksIn } from '../../local-server/copied.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import { CopyObstacle } from '../obstacle.ts';
import { grantBackup, type SourceServer } from './source-server.ts';

/** A data directory on this machine that is known to be the target server's. */
export type DataDirectory = Awaited<ReturnType<typeof recogniseDataDirectory>>;

/** Time between the start of the process and the start time that the server reports, in which it loads its libraries. */
const START_TOLERANCE_S = 120;

/**
 * Finds the server's data directory on this machine. The path alone proves nothing: another server, or a standby in a container,
 * may use the same path. The proof is that our own backend is a child of the process that uses the folder.
 * @returns as `folder` its path with links resolved.
 * @throws CopyObstacle if it is elsewhere, another server's, or not readable.
 */
export async function recogniseDataDirectory(server: SourceServer) {
  if (server.dataDirectory === null) throw hiddenDirectory(server);
  const folder = await resolve(server.dataDirectory);
  const { uid, gid } = await stat(folder);
  const me = process.getuid?.();
  if (me !== 0 && me !== uid)
    throw new CopyObstacle(
      `the data directory ${folder} belongs to another user (uid ${uid})`,
      `run safemigrate as that user (sudo -u '#${uid}' …) or as root`,
    );
  const postmasterPid = await provePostmaster(folder, server);
  return { folder, owner: { uid, gid }, postmasterPid };
}

/** Names all rights at once that a copy needs, also the one that would be missed next. */
function hiddenDirectory(server: SourceServer): CopyObstacle {
  return new CopyObstacle(
    `the role ${server.role} may not see where the server's data directory is`,
    [
      `GRANT pg_read_all_settings TO ${identifier(server.role)};`,
      ...(server.mayBackUp ? [] : [grantBackup(server, identifier)]),
    ].join('\n'),
  );
}

async function resolve(dataDirectory: string): Promise<string> {
  try {
    return await realpath(dataDirectory);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EACCES')
      throw new CopyObstacle(
        `the data directory ${dataDirectory} cannot be reached by this user`,
        "run safemigrate as the server's user or as root",
      );
    throw elsewhere(`this machine has no folder ${dataDirectory}`);
  }
}

async function provePostmaster(folder: string, server: SourceServer): Promise<number> {
  const [pidFile, control] = await readIdentity(folder);
  const identifier = parseSystemIdentifier(control);
  if (server.systemIdentifier !== null && server.systemIdentifier !== identifier)
    throw elsewhere(`${folder} on this machine holds another cluster (system identifier ${identifier})`);
  const postmaster = parsePostmasterFile(pidFile);
  if (!postmaster) throw elsewhere(`${folder} on this machine has no running server`);
  const { pid, startedAt, port } = postmaster;
  const alike = port === server.port && Math.abs(startedAt - server.startedAt) <= START_TOLERANCE_S;
  if (!alike || (await parentOf(server.backendPid)) !== pid || (await worksIn(pid, folder)) === false)
    throw elsewhere(`${folder} on this machine is served by another process`);
  return pid;
}

async function readIdentity(folder: string): Promise<[pidFile: string, control: Buffer]> {
  try {
    return await Promise.all([
      readFile(path.join(folder, 'postmaster.pid'), 'utf8'),
      readFile(path.join(folder, 'global', 'pg_control')),
    ]);
  } catch (error) {
    throw elsewhere(
      `${folder} on this machine is not the data directory of a running server: ${messageOf(error)}`,
    );
  }
}

function elsewhere(evidence: string): CopyObstacle {
  return new CopyObstacle(
    `the server's files are not on this machine (${evidence})`,
    "run safemigrate on the server's own machine, as the server's user or as root; not inside another container",
  );
}

const run = promisify(execFile);

/**
 * Parses `postmaster.pid`: its lines are process, data directory, start time (seconds since 1970), port, socket folder, address,
 * shared memory, state.
 */
export function parsePostmasterFile(text: string) {
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
