import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Socket } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { SafemigrateError } from '../errors.ts';
import { doubtOfFolder, entryFile, type FolderEntry, removeEntry } from '../ownership/folder-records.ts';
import { shippedText } from '../package.ts';

/**
 * The reaper is a shell program because it stays for hours: 1 MB of memory, Node takes 40. It is read when the program starts, so
 * that an upgrade of the package during a run changes nothing.
 */
const SCRIPT = shippedText('local-server/reaper.sh');

/**
 * The folder, without symbolic links, which need not exist yet; its run, by which the record is found that is removed at the end;
 * the folder of the socket, which is removed as well; and a shell command that releases what removing the folder does not.
 */
export interface ReaperOrder extends Pick<FolderEntry, 'folder' | 'run' | 'socketFolder' | 'release'> {
  /** Time until its end. Default: it ends at once. */
  readonly ttlMs?: number;
  /** Free space below which it ends. Default: none. */
  readonly floorBytes?: number;
  /** A folder whose file system's free space is watched. Default: the parent of the folder. */
  readonly space?: string;
  /** It only ends the server, and leaves the folder. */
  readonly stopsOnly?: boolean;
}

/** The reason for the end of the server: `owner` if the owner wanted it or died. */
export type Ending =
  | { readonly reason: 'owner' | 'asked' | 'time' | 'gone' }
  | { readonly reason: 'space'; readonly freeBytes: number }
  /** It was killed itself, and has ended nothing. */
  | { readonly reason: 'lost' };

export interface CloneReaper {
  readonly pid: number;
  /** Settles as soon as it begins to end the server, or is lost. */
  readonly ending: Promise<Ending>;
  /** The reaper no longer removes the clone when this process exits. */
  keep(): Promise<void>;
  /**
   * Ends the server and removes the folder.
   * @param until `stopped`: returns when the server has ended. The removal goes on without this process, and with `safemigrate clean`
   * if the reaper is killed.
   * @returns `failed` also if the reaper was lost.
   */
  end(until: 'gone' | 'stopped'): Promise<'gone' | 'removing' | 'failed'>;
}

/** @throws SafemigrateError `SERVER` where no process can be started. */
export async function startCloneReaper(order: ReaperOrder): Promise<CloneReaper> {
  const { folder, run, socketFolder, ttlMs = 0, floorBytes = 0, release, stopsOnly } = order;
  const space = order.space ?? path.dirname(folder);
  const life = Math.max(0, Math.ceil(ttlMs / 1000));
  const floor = Math.ceil(floorBytes / 1024);
  const words = [
    folder,
    run,
    entryFile(run),
    socketFolder,
    life,
    floor,
    release ?? '',
    stopsOnly ? 'yes' : '',
    space,
  ].map(String);
  const shell = spawn('/bin/sh', ['-c', SCRIPT, 'safemigrate-watchdog', ...words], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  await once(shell, 'spawn').catch((error: unknown) => {
    throw new SafemigrateError('SERVER', 'the watchdog of the clone could not be started', { cause: error });
  });
  const ended = once(shell, 'exit') as Promise<[number | null]>;
  const lines = readLines(shell.stdout);
  const ending = lines.first.then((line) => parseEnding(line ?? 'lost'));
  shell.stdin.on('error', () => {});
  const pipes = [shell.stdin, shell.stdout].filter((pipe) => pipe instanceof Socket);
  shell.unref();
  for (const pipe of pipes) pipe.unref();
  return {
    pid: shell.pid ?? 0,
    ending,
    keep: () =>
      new Promise((resolve, reject) => {
        shell.stdin.write('keep\n', (error) => (error ? reject(error) : resolve()));
      }),
    async end(until) {
      shell.ref();
      for (const pipe of pipes) pipe.ref();
      shell.stdin.end();
      if (until === 'gone' || (await lines.second) !== 'stopped')
        return (await ended)[0] === 0 ? 'gone' : 'failed';
      shell.unref();
      for (const pipe of pipes) pipe.unref();
      return 'removing';
    },
  };
}

/** The reason for the end, and then `stopped`; undefined if the output ends before. */
function readLines(output: NodeJS.ReadableStream): Record<'first' | 'second', Promise<string | undefined>> {
  const lines = createInterface(output)[Symbol.asyncIterator]();
  const first = lines.next().then(({ value }) => value as string | undefined);
  return { first, second: first.then(() => lines.next()).then(({ value }) => value as string | undefined) };
}

function parseEnding(line: string): Ending {
  const [reason = '', value] = line.split(' ');
  if (reason === 'space') return { reason, freeBytes: Number(value) * 1024 };
  return { reason: (['owner', 'asked', 'time', 'gone'] as const).find((word) => word === reason) ?? 'lost' };
}

/**
 * Stops the server in a recorded folder and removes the folder, if both are what the entry says; the caller knows that
 * they are no longer needed. An entry without a folder is dropped.
 * @throws SafemigrateError `NOT_OURS` where the folder is not provably the run's; `CLONE` when it is still there.
 */
export async function endFolder(entry: FolderEntry): Promise<void> {
  const { run, folder, socketFolder, release } = entry;
  const doubt = await doubtOf(entry);
  if (doubt) {
    throw new SafemigrateError('NOT_OURS', `${folder} was not removed: ${doubt}.`, {
      hint: `Look at it yourself; then remove it and ${entryFile(run)}.`,
    });
  }
  // The one that ends what runs and removes what is there is the watchdog; this one's time is up from the start.
  const watchdog = await startCloneReaper({ folder, run, socketFolder, release });
  if ((await watchdog.end('gone')) !== 'gone') {
    throw new SafemigrateError('CLONE', `${folder} could not be removed.`, {
      hint: `Remove it yourself: rm -rf ${folder}; then \`safemigrate clean\`.`,
    });
  }
  await removeEntry(run);
}

async function doubtOf({ run, folder, socketFolder }: FolderEntry): Promise<string | null> {
  const name = `safemigrate_${run}`;
  if (path.basename(folder) !== name) return `its name is not ${name}`;
  if (socketFolder !== path.join(folder, 'socket') && path.basename(socketFolder) !== name)
    return `${socketFolder} is not named ${name}`;
  return doubtOfFolder(folder, run);
}
