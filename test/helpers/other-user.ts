import { statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const CHECKOUT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');

/** Arguments: folders to enter, `--`, folders that hide them, `--`, the program. Their other contents are not there for it. */
const SHOWING = `mount -t tmpfs none /mnt || exit 1
shown= n=0
while [ "$1" != -- ]; do
  n=$((n + 1)); shown="$shown $1"
  mkdir /mnt/$n && mount --bind "$1" /mnt/$n || exit 1
  shift
done
shift
while [ "$1" != -- ]; do mount -t tmpfs -o mode=755 none "$1" || exit 1; shift; done
shift
n=0
for each in $shown; do
  n=$((n + 1))
  (umask 022 && mkdir -p "$each") && mount --bind /mnt/$n "$each" || exit 1
done
exec "$@"`;

/** Words with which root runs a program as another user, who reaches this checkout and Node.js even in a home that only root enters. */
export function asUser(id: number | undefined): string[] {
  const user = ['setpriv', `--reuid=${id}`, `--regid=${id}`, '--clear-groups'];
  const needed = [CHECKOUT, path.dirname(process.execPath)];
  const hiding = new Map(needed.flatMap((folder) => hidingFolder(folder).map((each) => [folder, each])));
  if (hiding.size === 0) return user;
  const folders = [...hiding.keys(), '--', ...new Set(hiding.values()), '--'];
  return ['unshare', '--mount', 'sh', '-c', SHOWING, 'sh', ...folders, ...user];
}

/** The topmost folder on the way that others may not enter, if there is one. */
function hidingFolder(folder: string): string[] {
  const above = path.dirname(folder);
  const found = above === folder ? [] : hidingFolder(above);
  if (found.length > 0) return found;
  return (statSync(folder).mode & 0o001) === 0 ? [folder] : [];
}
