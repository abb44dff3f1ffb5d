import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { access, appendFile, chown, mkdir, open, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { inject } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { freePort } from '../../src/local-server/embedded.ts';
import { guardFolder } from '../../src/local-server/folder-cleaner.ts';
import { copyOrMake } from './data-directory.ts';
import { programsOf } from './own-server.ts';

const run = promisify(execFile);

/** A server whose parts lie where the test wants them: data in a subvolume, WAL elsewhere, configuration outside. */
export interface PlacedServer {
  /** Of the superuser `postgres`, who needs no password. */
  readonly url: string;
  readonly port: number;
  readonly folder: string;
  readonly data: string;
  readonly socketFolder: string;
  /** Ends it at once and removes its folder. Idempotent. */
  stop(): Promise<void>;
}

export interface Placing {
  /** Its own folder is made in there, with everything of the server. */
  readonly parent: string;
  /** Of the programs; default: those of the test's packages. */
  readonly programs?: string;
  readonly settings?: Readonly<Record<string, string>>;
  /** Makes `<folder>/data`. Default: by initdb. */
  make?(folder: string, initdb: (...options: string[]) => Promise<void>): Promise<void>;
  /** Words for `postgres` instead of `-D <folder>/data`. */
  start?(folder: string): string[];
}

/** The user that servers of tests run as: nobody, where we are root. */
export const SERVER_UID = process.getuid?.() === 0 ? 65_534 : undefined;

const START_MS = 30_000;

export async function placedServer(version: ServerVersion, placing: Placing): Promise<PlacedServer> {
  const folder = path.join(placing.parent, `placed-${randomBytes(4).toString('hex')}`);
  const data = path.join(folder, 'data');
  const socketFolder = path.join(folder, 'socket');
  const guard = guardFolder(folder);
  try {
    await ownFolder(folder);
    await ownFolder(socketFolder);
    const programs = placing.programs ?? (await programsOf(version));
    const port = await freePort('127.0.0.1');
    const initdb = async (...options: string[]) => {
      const words = [
        '-D',
        data,
        '-U',
        'postgres',
        '--auth=trust',
        '--no-sync',
        '--locale=C.UTF-8',
        '-E',
        'UTF8',
      ];
      const make = async () => {
        await run(path.join(programs, 'initdb'), [...words, ...options], {
          cwd: '/',
          ...(SERVER_UID === undefined ? {} : { uid: SERVER_UID, gid: SERVER_UID }),
        });
      };
      // WAL that lies elsewhere would not be copied, but shared.
      if (options.includes('--waldir')) await make();
      else await copyOrMake(inject('store'), ['placed', programs, options], data, make);
    };
    await (placing.make ?? ((_, make) => make()))(folder, initdb);
    const settings = {
      listen_addresses: '127.0.0.1',
      port: String(port),
      unix_socket_directories: socketFolder,
      shared_buffers: '32MB',
      huge_pages: 'off',
      ...placing.settings,
    };
    const words = placing.start?.(folder) ?? ['-D', data];
    const set = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const log = await open(path.join(folder, 'log'), 'a', 0o644);
    await guard.launch(path.join(programs, 'postgres'), [...words, ...set], {
      environment: { PATH: process.env.PATH },
      uid: SERVER_UID,
      output: log.fd,
    });
    await log.close();
    await untilReady(folder);
    const url = `postgresql://postgres@127.0.0.1:${port}/postgres`;
    return { url, port, folder, data, socketFolder, stop: () => guard.dismiss() };
  } catch (error) {
    await guard.dismiss().catch(() => {});
    throw error;
  }
}

/** The eighth line of postmaster.pid is the server's state; a standby that answers queries is ready too. */
async function untilReady(folder: string): Promise<void> {
  const deadline = performance.now() + START_MS;
  for (;;) {
    const text = await readFile(path.join(folder, 'data', 'postmaster.pid'), 'utf8').catch(() => '');
    if (text.split('\n')[7]?.trim() === 'ready') return;
    if (performance.now() > deadline)
      throw new Error(`the server did not start:\n${await readFile(path.join(folder, 'log'), 'utf8')}`);
    await delay(10);
  }
}

export async function ownFolder(folder: string): Promise<void> {
  await mkdir(folder, { mode: 0o700 });
  if (SERVER_UID !== undefined) await chown(folder, SERVER_UID, SERVER_UID);
}

/** A standby of a server, streaming from it, made by hand. */
export async function standbyOf(
  primary: PlacedServer,
  version: ServerVersion,
  query: (sql: string) => Promise<Record<string, string>[]>,
): Promise<PlacedServer> {
  const [start, stop] =
    version < 15
      ? ["pg_start_backup('standby', true, false)", 'pg_stop_backup(false, false)']
      : ["pg_backup_start('standby', true)", 'pg_backup_stop(false)'];
  return placedServer(version, {
    parent: path.dirname(primary.folder),
    settings: { primary_conninfo: `host=127.0.0.1 port=${primary.port} user=postgres`, hot_standby: 'on' },
    make: async (folder) => {
      const data = path.join(folder, 'data');
      await query(`SELECT ${start}`);
      await run('cp', ['-a', primary.data, data]);
      const [end] = await query(`SELECT labelfile FROM ${stop}`);
      await run('sh', [
        '-c',
        'rm -rf "$1"/postmaster.* "$1"/pg_replslot/*; cp -a "$2"/pg_wal "$1"',
        'sh',
        data,
        primary.data,
      ]);
      await writeFile(path.join(data, 'backup_label'), end?.labelfile ?? '');
      await appendFile(path.join(data, 'standby.signal'), '');
      if (SERVER_UID !== undefined) await run('chown', ['-R', `${SERVER_UID}:${SERVER_UID}`, data]);
    },
  });
}

/** Where Debian and Ubuntu install a major version. @returns why it is not there, for skipReason(). */
export async function debianPrograms(
  version: ServerVersion,
): Promise<{ programs: string; obstacle: string | null }> {
  const programs = `/usr/lib/postgresql/${version}/bin`;
  const obstacle = await access(path.join(programs, 'initdb')).then(
    () => null,
    () => `PostgreSQL ${version} is not installed in ${programs}`,
  );
  return { programs, obstacle };
}
