import { readdir, realpath, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { SafemigrateError } from '../errors.ts';
import { makeFolder } from '../ownership/folder-mark.ts';
import type { Clusters } from './new-cluster.ts';
import { runWell, type UpgradeSandbox } from './sandboxed-programs.ts';

/** Makes `old` and `new` in the place, and copies of what links in `old` point to: tablespaces, in snapshots WAL as well. */
export async function copyClusters({ old, fresh }: Clusters, place: string): Promise<void> {
  const { sandbox, copy, owner, data } = old;
  await makeFolder(place, owner);
  // Outside of the sandbox, and as the user that we are: who is root keeps the owners.
  const outside: UpgradeSandbox = { ...sandbox, through: [], user: undefined };
  const cp = ['cp', '-a', process.platform === 'darwin' ? '-c' : '--reflink=auto'];
  const mine = path.join(place, 'old');
  await copy.lease.during(async () => {
    await runWell(outside, [...cp, await realpath(data), mine]);
    await runWell(outside, [...cp, fresh.data, path.join(place, 'new')]);
    for (const link of await linksIn(mine)) {
      const own = path.join(place, `part-${path.basename(link)}`);
      await runWell(outside, [...cp, await partOf(link, sandbox.folder), own]);
      await rm(link);
      await symlink(own, link);
    }
  });
}

/** Resolves such a link. @throws SafemigrateError `CLONE` if it points out of the folder of the copy. */
async function partOf(link: string, folder: string): Promise<string> {
  const part = await realpath(link);
  if (part.startsWith(`${folder}/`)) return part;
  throw new SafemigrateError('CLONE', `${link} points to ${part}, out of the folder of the copy.`);
}

/** Lists the links to parts of the cluster that lie elsewhere. */
async function linksIn(data: string): Promise<string[]> {
  const entries = await Promise.all(
    [data, path.join(data, 'pg_tblspc')].map((folder) => readdir(folder, { withFileTypes: true })),
  );
  return entries
    .flat()
    .filter((entry) => entry.isSymbolicLink())
    .map(({ parentPath, name }) => path.join(parentPath, name));
}
