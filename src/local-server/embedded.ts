import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chown, mkdir, open, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf, SafemigrateError } from '../errors.ts';
import { embeddedBinaries, type ServerVersion } from './binaries.ts';
import { type FolderCleaner, type GuardedFolder, guardFolder } from './folder-cleaner.ts';
import { reachableByOthers, usableInstallation } from './installation.ts';

export interface ServerOptions {
  /** Default: 18. */
  readonly version?: ServerVersion;
  /** The folder of initdb and postgres, where they are not to be looked for. */
  readonly binaries?: string;
  /** The folder in which the server's own folder is made. Default: the system's for temporary files. */
  readonly parent?: string;
  /** Its own folder, new and empty but for a mark, where it is not to be made here; it goes with the server. */
  readonly place?: GuardedFolder;
  /** The superuser's name. Default: `postgres`. */
  readonly user?: string;
  /** Over the socket, whose folder no other user may enter, every role is let in without a password. Default: false. */
  readonly openSocket?: boolean;
  /** Written to postgresql.conf. */
  readonly settings?: Readonly<Record<string, string>>;
}

/** A private PostgreSQL server, reachable over loopback and over a socket in its own folder (mode 0700). */
export interface Server {
  /** URL of the superuser in the database `postgres`, with the password. */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly socketFolder: string;
  /** Holds everything there is of the server; its data directory is `data`, its log is `log`. */
  readonly folder: string;
  readonly version: ServerVersion;
  readonly user: string;
  readonly password: string;
  /** Ends all sessions, ends the server, removes its folder. Idempotent. */
  stop(): Promise<void>;
  /** `fast` ends all sessions orderly; `immediate` is a crash, followed by recovery. Same port. */
  restart(mode?: 'fast' | 'immediate'): Promise<void>;
}

/** PostgreSQL refuses to run as root; 65534 is `nobody` on Linux, and initdb wants a user with a name. */
const UNPRIVILEGED_UID = 65_534;

const USER = 'postgres';
const HOST = '127.0.0.1';
const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 20_000;
const POLL_MS = 10;
const PORT_TRIES = 5;

/** Nothing in it outlives the server, so nothing has to outlive the machine. */
const THROWAWAY = { fsync: 'off', huge_pages: 'off', shared_buffers: '64MB', logging_collector: 'off' };

/**
 * Makes and starts a server of its own, which ends with this process, however that ends, and takes its folder along.
 * @param initialize makes its data directory.
 * @throws SafemigrateError `SERVER`, with the end of the server's log.
 */
export async function startServer(
  options: ServerOptions = {},
  initialize: Initialize = byInitdb,
): Promise<Server> {
  const version = options.version ?? 18;
  const binaries = options.binaries ?? (await embeddedBinaries(version));
  const uid = process.getuid?.() === 0 ? UNPRIVILEGED_UID : undefined;
  const { folder, guard } = options.place ?? temporaryPlace(options.parent ?? tmpdir());
  try {
    if (!options.place) await mkdir(folder, { mode: 0o700 });
    if (uid !== undefined) await requireReachable(path.dirname(folder));
    await ownedFolder(folder, uid);
    const programs = await usableInstallation(binaries, path.join(folder, 'installation'), uid !== undefined);
    const place: ServerLocation = { folder, programs, uid, guard };
    const login = await initialize(place, options);
    return await serve(place, version, login, options.settings ?? {});
  } catch (error) {
    await guard.dismiss().catch(() => {});
    throw error;
  }
}

export interface ServerLocation {
  readonly folder: string;
  /** The folder of initdb and postgres, as whoever the server runs as finds them. */
  readonly programs: string;
  /** The user that it runs as; undefined for our own. */
  readonly uid: number | undefined;
  readonly guard: FolderCleaner;
}

/** The superuser's login. */
type ServerLogin = Pick<Server, 'user' | 'password'>;

/** Makes the folder `data` in that of a new server. */
export type Initialize = (place: ServerLocation, options: ServerOptions) => Promise<ServerLogin>;

/** Place of a server whose files need no mark, since losing them harms no user. */
function temporaryPlace(parent: string): GuardedFolder {
  const folder = path.join(parent, `safemigrate-server-${randomBytes(5).toString('hex')}`);
  return { folder, guard: guardFolder(folder) };
}

async function requireReachable(parent: string): Promise<void> {
  if (await reachableByOthers(parent)) return;
  throw new SafemigrateError(
    'SERVER',
    `PostgreSQL does not run as root, and other users cannot enter ${parent}`,
    { hint: 'Set TMPDIR to a folder that every user may enter, or run as an ordinary user.' },
  );
}

async function ownedFolder(folder: string, uid: number | undefined): Promise<void> {
  await mkdir(path.join(folder, 'socket'), { mode: 0o700 });
  if (uid === undefined) return;
  await chown(path.join(folder, 'socket'), uid, uid);
  await chown(folder, uid, uid);
}

export async function byInitdb(
  place: ServerLocation,
  { user = USER, openSocket = false }: ServerOptions,
): Promise<ServerLogin> {
  const password = randomBytes(18).toString('base64url');
  const passwordFile = path.join(place.folder, 'password');
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (place.uid !== undefined) await chown(passwordFile, place.uid, place.uid);
  const initdb = await launch(place, 'initdb', [
    `--pgdata=${path.join(place.folder, 'data')}`,
    `--username=${user}`,
    `--pwfile=${passwordFile}`,
    '--auth-host=scram-sha-256',
    `--auth-local=${openSocket ? 'trust' : 'scram-sha-256'}`,
    '--encoding=UTF8',
    // macOS has no C.UTF-8; there, only ASCII letters have an upper case.
    `--locale=${process.platform === 'linux' ? 'C.UTF-8' : 'C'}`,
    '--no-sync',
    '--no-instructions',
  ]);
  if (!hasEnded(initdb)) await once(initdb, 'exit');
  await rm(passwordFile);
  if (initdb.exitCode !== 0) throw await failure(place, 'initdb failed');
  return { user, password };
}

async function serve(
  place: ServerLocation,
  version: ServerVersion,
  { user, password }: ServerLogin,
  settings: Readonly<Record<string, string>>,
): Promise<Server> {
  const socketFolder = path.join(place.folder, 'socket');
  await configure(place, { ...THROWAWAY, unix_socket_directories: socketFolder, ...settings });
  let { postmaster, port } = await startOnFreePort(place);
  let stopped: Promise<void> | undefined;
  return {
    url: `postgresql://${user}:${password}@${HOST}:${port}/postgres`,
    host: HOST,
    port,
    socketFolder,
    folder: place.folder,
    version,
    user,
    password,
    stop() {
      stopped ??= end(postmaster, 'SIGINT').finally(() => place.guard.dismiss());
      return stopped;
    },
    async restart(mode = 'fast') {
      await end(postmaster, mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
      postmaster = await startPostmaster(place, port);
    },
  };
}

async function configure(place: ServerLocation, settings: Readonly<Record<string, string>>): Promise<void> {
  const lines = Object.entries({ listen_addresses: HOST, ...settings }).map(
    ([name, value]) => `${name} = '${value.replaceAll('\\', '\\\\').replaceAll("'", "''")}'\n`,
  );
  await writeFile(path.join(place.folder, 'data', 'postgresql.conf'), `\n${lines.join('')}`, { flag: 'a' });
}

/** Between finding a free port and the server taking it, somebody else may: then with another one. */
async function startOnFreePort(place: ServerLocation): Promise<{ postmaster: ChildProcess; port: number }> {
  for (let tries = 1; ; tries++) {
    const port = await freePort(HOST);
    try {
      return { port, postmaster: await startPostmaster(place, port) };
    } catch (error) {
      if (tries === PORT_TRIES || (await isFree(HOST, port))) throw error;
    }
  }
}

async function startPostmaster(place: ServerLocation, port: number): Promise<ChildProcess> {
  const data = path.join(place.folder, 'data');
  const postmaster = await launch(place, 'postgres', ['-D', data, '-p', String(port)]);
  const deadline = performance.now() + START_TIMEOUT_MS;
  while (!(await isReady(data, postmaster))) {
    if (hasEnded(postmaster)) throw await failure(place, 'the server did not start');
    if (performance.now() > deadline) {
      await end(postmaster, 'SIGQUIT');
      throw await failure(place, `the server was not ready after ${START_TIMEOUT_MS / 1000} s`);
    }
    await delay(POLL_MS);
  }
  postmaster.unref();
  return postmaster;
}

/** postmaster.pid holds the server's process in its first line and its state in its eighth, as pg_ctl reads it. */
async function isReady(data: string, postmaster: ChildProcess): Promise<boolean> {
  try {
    const lines = (await readFile(path.join(data, 'postmaster.pid'), 'utf8')).split('\n');
    return Number(lines[0]) === postmaster.pid && lines[7]?.trim() === 'ready';
  } catch {
    return false;
  }
}

async function end(postmaster: ChildProcess, signal: 'SIGINT' | 'SIGQUIT'): Promise<void> {
  if (hasEnded(postmaster)) return;
  const exited = once(postmaster, 'exit');
  postmaster.ref();
  postmaster.kill(signal);
  const impatience = setTimeout(() => postmaster.kill('SIGQUIT'), STOP_TIMEOUT_MS);
  await exited;
  clearTimeout(impatience);
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

async function launch(place: ServerLocation, program: string, args: string[]): Promise<ChildProcess> {
  const log = await open(path.join(place.folder, 'log'), 'a', 0o600);
  try {
    // None of our PG* variables: they would reach the server's own tools.
    const environment = { PATH: process.env.PATH, TZ: process.env.TZ };
    const file = path.join(place.programs, program);
    return await place.guard.launch(file, args, { environment, uid: place.uid, output: log.fd });
  } catch (error) {
    throw new SafemigrateError('SERVER', `${program} could not be started: ${messageOf(error)}`, {
      cause: error,
    });
  } finally {
    await log.close();
  }
}

async function failure(place: ServerLocation, what: string): Promise<SafemigrateError> {
  const log = await readFile(path.join(place.folder, 'log'), 'utf8').catch(() => '');
  const end = log.trim().split('\n').slice(-8).join('\n  ');
  return new SafemigrateError('SERVER', `private PostgreSQL server: ${what}\n  ${end}`);
}

/** A TCP port that is free at this moment. */
export async function freePort(host: string): Promise<number> {
  const listener = createServer().listen(0, host);
  await once(listener, 'listening');
  const address = listener.address();
  listener.close();
  await once(listener, 'close');
  if (address === null || typeof address === 'string')
    throw new Error('a TCP listener has an address with a port');
  return address.port;
}

async function isFree(host: string, port: number): Promise<boolean> {
  const listener = createServer().listen(port, host);
  try {
    await once(listener, 'listening');
  } catch {
    return false;
  }
  listener.close();
  await once(listener, 'close');
  return true;
}
