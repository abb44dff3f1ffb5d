import {
  access,
  constants,
  copyFile,
  link,
  mkdir,
  readdir,
  readFile,
  realpath,
  stat,
  symlink,
} from 'node:fs/promises';
import path from 'node:path';

interface PackagedLink {
  /** Both relative to the package: the file that is linked, and where the link belongs. */
  readonly source: string;
  readonly target: string;
}

/**
 * Makes PostgreSQL's programs executable for the role that the server runs as.
 *
 * The npm packages carry no symbolic links (an install script would make them, and we do not rely on those), so that
 * the programs do not find their libraries; and when root installed them under its home, no other user gets there.
 * A tree of hard links in `folder`, or copies where the file system is another one, cures both.
 * @returns the folder of the programs, as it was given when it needs no cure.
 */
export async function usableInstallation(binaries: string, folder: string, asRoot: boolean): Promise<string> {
  if (!(await needsReplica(binaries, asRoot))) return binaries;
  const tree = path.dirname(await realpath(binaries));
  const links = await packagedLinks(tree);
  await replicate(tree, folder);
  for (const { source, target } of links) {
    const place = path.join(folder, path.relative('native', target));
    const content = path.relative(path.dirname(target), source);
    await symlink(content, place).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
  return path.join(folder, path.basename(binaries));
}

/** @returns whether usableInstallation() would make a tree of its own, with the programs in its `bin`. */
export async function needsReplica(binaries: string, asRoot: boolean): Promise<boolean> {
  const tree = path.dirname(await realpath(binaries));
  const links = await packagedLinks(tree);
  if (await firstMissing(tree, links)) return true;
  return links.length > 0 && asRoot && !(await reachableByOthers(tree));
}

/** @returns whether every user may enter the folder; as root PostgreSQL has to run as another user. */
export async function reachableByOthers(folder: string): Promise<boolean> {
  for (let at = await realpath(folder); ; at = path.dirname(at)) {
    if (((await stat(at)).mode & constants.S_IXOTH) === 0) return false;
    if (at === path.dirname(at)) return true;
  }
}

async function packagedLinks(tree: string): Promise<PackagedLink[]> {
  try {
    return JSON.parse(await readFile(path.join(tree, 'pg-symlinks.json'), 'utf8')) as PackagedLink[];
  } catch {
    return [];
  }
}

async function firstMissing(tree: string, links: PackagedLink[]): Promise<string | undefined> {
  for (const { target } of links) {
    try {
      await access(path.join(tree, path.relative('native', target)));
    } catch {
      return target;
    }
  }
  return undefined;
}

async function replicate(from: string, to: string): Promise<void> {
  await mkdir(to, { mode: 0o755 });
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = path.join(from, entry.name);
    const target = path.join(to, entry.name);
    if (entry.isDirectory()) await replicate(source, target);
    else if (entry.isFile()) await link(source, target).catch(() => copyFile(source, target));
  }
}

/** Lists the folders that the programs of an installation use besides their own. */
export function foldersBeside(programs: string): string[] {
  const installation = path.dirname(programs);
  // Debian has share/postgresql/19 beside lib/postgresql/19/bin, which may be unpacked anywhere.
  const [, prefix = '', version] = /^(.*)\/lib\/(postgresql\/\d+)$/.exec(installation) ?? [];
  return [
    ...['lib', 'lib64', 'share'].map((name) => path.join(installation, name)),
    ...(version === undefined ? [] : [path.join(prefix, 'share', version)]),
  ];
}
