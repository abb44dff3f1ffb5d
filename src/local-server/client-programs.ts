import { execFile } from 'node:child_process';
import { access, constants, readdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

export type ClientProgram =
  | 'pg_dump'
  | 'pg_restore'
  | 'pg_basebackup'
  | 'psql'
  | 'pgbench'
  /** Further programs that pg_upgrade needs, among them programs of the server. */
  | 'postgres'
  | 'initdb'
  | 'pg_ctl'
  | 'pg_controldata'
  | 'pg_resetwal'
  | 'pg_dumpall'
  | 'pg_upgrade'
  | 'vacuumdb';

export interface ClientPrograms {
  readonly folder: string;
  readonly major: number;
  /** `15.18` */
  readonly version: string;
}

export interface WantedPrograms {
  /** All of them in one folder; the first one is asked for its version. */
  readonly programs: readonly [ClientProgram, ...ClientProgram[]];
  /** Major version: older programs refuse a newer server. */
  readonly atLeast: number;
  /** Major version above which they do not work. Default: none. */
  readonly atMost?: number;
}

const run = promisify(execFile);

/** The folders of packages, a folder for each version. */
const BESIDE_EACH_OTHER: readonly (readonly [parent: string, rest: string])[] = [
  ['/usr/lib/postgresql', 'bin'],
  ['/usr', 'bin'],
  ['/opt/homebrew/opt', 'bin'],
  ['/usr/local/opt', 'bin'],
];
const VERSIONED = /^(\d+|pgsql-\d+|postgresql@\d+|libpq)$/;

/**
 * The client programs that fit best: those of PGBIN if they will do, else those of the nearest version that is not too
 * old, in the folders of packages and in PATH. Nothing of them comes with safemigrate.
 * @returns the reason if there are none, and what would help.
 */
export async function findClientPrograms(
  wanted: WantedPrograms,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<ClientPrograms | ReturnType<typeof absence>> {
  const { atLeast, atMost = Number.POSITIVE_INFINITY } = wanted;
  const fits = ({ major }: ClientPrograms) => major >= atLeast && major <= atMost;
  const preferred = await preferredPrograms(wanted.programs, environment);
  if (preferred && fits(preferred)) return preferred;
  const packaged = await programsInAll(await packagedFolders(), wanted.programs);
  // What stands in PATH may be a script that takes longer to answer than all the others.
  const others = packaged.some(fits)
    ? packaged
    : [...packaged, ...(await programsInAll(pathFolders(environment), wanted.programs))];
  const [best] = others.filter(fits).sort((one, other) => one.major - other.major);
  return best ?? absence(wanted, preferred ? [preferred, ...others] : others);
}

/** Returns the programs of the newest version, for files whose needs are not known yet. */
export async function newestClientPrograms(
  programs: WantedPrograms['programs'],
  environment: NodeJS.ProcessEnv = process.env,
): Promise<ClientPrograms | undefined> {
  const preferred = await preferredPrograms(programs, environment);
  if (preferred) return preferred;
  const folders = [...(await packagedFolders()), ...pathFolders(environment)];
  const found = await programsInAll(folders, programs);
  return found.sort((one, other) => other.major - one.major)[0];
}

async function preferredPrograms(
  programs: WantedPrograms['programs'],
  { PGBIN }: NodeJS.ProcessEnv,
): Promise<ClientPrograms | undefined> {
  return PGBIN ? programsIn(PGBIN, programs) : undefined;
}

async function programsInAll(
  folders: readonly string[],
  programs: WantedPrograms['programs'],
): Promise<ClientPrograms[]> {
  // On many systems /bin is /usr/bin by another name.
  const places = await Promise.all(folders.map((folder) => realpath(folder).catch(() => folder)));
  const found = await Promise.all([...new Set(places)].map((folder) => programsIn(folder, programs)));
  return found.filter((each) => each !== undefined);
}

function pathFolders({ PATH }: NodeJS.ProcessEnv): string[] {
  return (PATH ?? '').split(path.delimiter).filter((folder) => folder.startsWith('/'));
}

async function packagedFolders(): Promise<string[]> {
  const folders = await Promise.all(
    BESIDE_EACH_OTHER.map(async ([parent, rest]) => {
      const names = await readdir(parent).catch((): string[] => []);
      return names.filter((name) => VERSIONED.test(name)).map((name) => path.join(parent, name, rest));
    }),
  );
  return folders.flat();
}

async function programsIn(
  folder: string,
  programs: WantedPrograms['programs'],
): Promise<ClientPrograms | undefined> {
  try {
    await Promise.all(programs.map((program) => access(path.join(folder, program), constants.X_OK)));
    const { stdout } = await run(path.join(folder, programs[0]), ['--version']);
    const [, version] = /\(PostgreSQL\) (\d+(?:\.\d+|devel|beta\d+|rc\d+)*)/.exec(stdout) ?? [];
    return version === undefined ? undefined : { folder, version, major: Number.parseInt(version, 10) };
  } catch {
    return undefined;
  }
}

function absence({ programs, atLeast, atMost }: WantedPrograms, found: readonly ClientPrograms[]) {
  const names = programs.join(' and ');
  const fitting = atMost === undefined ? `${atLeast} or newer` : `${atLeast} to ${atMost}`;
  const [newest] = [...found].sort((one, other) => other.major - one.major);
  return {
    reason:
      newest === undefined
        ? `${names} ${programs.length === 1 ? 'is' : 'are'} not installed here (looked in PGBIN, in PATH, and where packages put them)`
        : newest.major < atLeast
          ? `${names} of PostgreSQL ${newest.version} is the newest here, and refuses a server of ${atLeast}`
          : `${names} of PostgreSQL ${newest.version} sends settings that a server of ${atMost} does not know`,
    enable:
      `install the client programs of PostgreSQL ${fitting} (package postgresql-client-${atLeast} on Debian and Ubuntu, ` +
      `postgresql${atLeast} on Red Hat, postgresql@${atLeast} with Homebrew), or name their folder in PGBIN`,
  };
}
