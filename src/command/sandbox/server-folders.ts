import { readdir, readFile, readlink, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { readMounts } from '../../database/mounts.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { postmasterOf } from '../process-sockets.ts';

/**
 * Lists the places of a server on this machine through which its data and configuration could be changed: its data directory,
 * the tablespaces and WAL that lie elsewhere, its configuration, and what is mounted within these.
 * @param workingFolder of the command, which must stay writable.
 * @returns none if the server is elsewhere or belongs to another user, to whom the files belong as well.
 */
export async function serverFolders(control: Session, workingFolder: string): Promise<string[]> {
  const postmaster = await postmasterOf(control);
  if (postmaster === undefined) return [];
  const data = `/proc/${postmaster}/cwd`;
  const found = [data, `${data}/pg_wal`, ...(await entriesOf(`${data}/pg_tblspc`))];
  for (const file of await namedFiles(postmaster)) found.push(isOfSystem(file) ? path.dirname(file) : file);
  const places = await Promise.all(found.map((place) => placeHere(postmaster, place)));
  const outermost = [...new Set(places)].filter(
    (place) => place !== undefined && !places.some((other) => other !== place && isWithin(place, other)),
  ) as string[];
  const mounts = (await readMounts()).map(({ folder }) => folder);
  return outermost
    .filter((place) => !isWithin(workingFolder, place))
    .flatMap((place) => [place, ...mounts.filter((mount) => mount !== place && isWithin(mount, place))]);
}

/** Lists the files that the server's command line names: `-c config_file=/etc/postgresql/15/main/postgresql.conf` on Debian. */
export async function namedFiles(postmaster: number): Promise<string[]> {
  const words = await readFile(`/proc/${postmaster}/cmdline`, 'utf8').catch(() => '');
  const files = [...words.matchAll(/(?:config|hba|ident)_file=(\/[^\0]+)/g)].map(([, file = '']) => file);
  return files.map((file) => path.join(`/proc/${postmaster}/root`, file));
}

/** Folders of /etc hold nothing but configuration; elsewhere a file may lie among others' files. */
const isOfSystem = (file: string) => /^\/proc\/\d+\/root\/etc\/.+\//.test(file);

async function entriesOf(folder: string): Promise<string[]> {
  return (await readdir(folder).catch((): string[] => [])).map((name) => path.join(folder, name));
}

/** Returns the path here of what the server's process sees; undefined if it sees other files than we do. */
async function placeHere(postmaster: number, place: string): Promise<string | undefined> {
  try {
    const root = `/proc/${postmaster}/root`;
    const link = place.startsWith(root) ? place.slice(root.length) : await readlink(place).catch(() => null);
    if (link === null) return undefined;
    const [here, there] = await Promise.all([stat(link), stat(place)]);
    return here.dev === there.dev && here.ino === there.ino ? await realpath(link) : undefined;
  } catch {
    return undefined;
  }
}

function isWithin(file: string, folder: string | undefined): boolean {
  return folder !== undefined && (file === folder || file.startsWith(`${folder}/`));
}
