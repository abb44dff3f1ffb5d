import { execFile } from 'node:child_process';
import { access, constants, realpath } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { SafemigrateError } from '../errors.ts';
import { listed } from '../format.ts';
import {
  type ClientProgram,
  type ClientPrograms,
  findClientPrograms,
} from '../local-server/client-programs.ts';
import { foldersBeside } from '../local-server/installation.ts';

const run = promisify(execFile);

/** Programs that pg_upgrade needs from the old installation, and from the new one. */
const OLD = ['postgres', 'pg_ctl', 'pg_controldata', 'pg_resetwal'] as const;
const NEW = [
  'postgres',
  'pg_upgrade',
  ...(['pg_ctl', 'pg_controldata', 'pg_resetwal', 'initdb'] as const),
  ...(['pg_dump', 'pg_dumpall', 'pg_restore', 'psql', 'vacuumdb'] as const),
] as const;

type Programs = readonly [ClientProgram, ...ClientProgram[]];

/** Finds the new installation, complete. @param folder of --new-bin. @throws SafemigrateError `SERVER` */
export function findNewPrograms(major: number, folder: string | null): Promise<ClientPrograms> {
  return findInstallation(major, NEW, '--new-bin', folder);
}

/**
 * Finds the old installation, complete.
 * @param folder of --old-bin. @param running the folder of the running server's program.
 * @throws SafemigrateError `SERVER`
 */
export async function findOldPrograms(
  major: number,
  folder: string | null,
  running: string,
): Promise<ClientPrograms> {
  const complete = folder === null && (await missingIn(running, OLD)).length === 0;
  return findInstallation(major, OLD, '--old-bin', complete ? running : folder);
}

async function findInstallation(
  major: number,
  programs: Programs,
  option: string,
  folder: string | null,
): Promise<ClientPrograms> {
  const incomplete = (reason: string) => lacking(major, option, reason);
  if (folder === null) {
    const found = await findClientPrograms({ programs, atLeast: major, atMost: major });
    if (!('reason' in found)) return found;
    throw incomplete(`No folder with all of them was found (${listed(programs, { atMost: 20 })})`);
  }
  const place = await realpath(folder).catch(() => folder);
  const missing = await missingIn(place, programs);
  if (missing.length > 0) throw incomplete(`${place} lacks ${listed(missing, { atMost: 20 })}`);
  const found = await findClientPrograms({ programs, atLeast: 0 }, { PGBIN: place });
  if ('folder' in found && found.folder === place && found.major === major) return found;
  const other =
    'folder' in found && found.folder === place ? `of PostgreSQL ${found.version}` : 'of no server';
  throw new SafemigrateError('SERVER', `The programs that ${option} names are ${other}, not of ${major}.`, {
    hint: 'The target was not touched. Name another folder.',
  });
}

async function missingIn(folder: string, programs: Programs): Promise<string[]> {
  const found = await Promise.all(
    programs.map((program) =>
      access(path.join(folder, program), constants.X_OK).then(
        () => [],
        () => [program],
      ),
    ),
  );
  return found.flat();
}

function lacking(major: number, option: string, reason: string): SafemigrateError {
  return new SafemigrateError(
    'SERVER',
    `pg_upgrade needs more programs of PostgreSQL ${major} than this machine has. ${reason}.`,
    {
      hint:
        `Install the server of PostgreSQL ${major} beside the present one (package postgresql-${major} on Debian and Ubuntu, ` +
        `postgresql${major}-server on Red Hat, postgresql@${major} with Homebrew), or name the folder of its programs with ${option}. ` +
        'The target was not touched.',
    },
  );
}

/**
 * Lists the folders that an installation's programs need besides their own: a sandbox has to show them.
 * @returns folders of libraries that packages keep elsewhere, too.
 */
export async function foldersOf({ folder }: ClientPrograms): Promise<string[]> {
  const linked = await Promise.all(
    ['pg_upgrade', 'psql', 'postgres'].map((program) => librariesOf(path.join(folder, program))),
  );
  return [...new Set([folder, ...foldersBeside(folder), ...linked.flat()])];
}

/** The folders that the loader finds libraries in; none where there is no ldd. */
async function librariesOf(program: string): Promise<string[]> {
  const { stdout } = await run('ldd', [program]).catch(() => ({ stdout: '' }));
  const files = [...stdout.matchAll(/=> (\/\S+)/g)].map(([, file = '']) => file);
  return Promise.all(files.map(async (file) => path.dirname(await realpath(file))));
}
