import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Caveat } from '../../model/report.ts';

const run = promisify(execFile);

/** The way to start a second server so that it cannot reach other systems. */
export interface Sandbox {
  /** Words before the server's own command line. */
  readonly through: readonly string[];
  /** User for spawn, if `through` does not change it. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined;
  /** No network, and no access to the original's sockets and files: nothing in the clone can reach other systems. */
  readonly closed: boolean;
  readonly caveats: Caveat[];
}

/**
 * Script that runs in new network and mount namespaces, as root. Its arguments: folders to hide, `--`, the program. The namespace
 * has a loopback device of its own, which PostgreSQL 14 needs for its statistics. Sockets in the file system are reachable from other
 * network namespaces, so they are hidden: a dblink without a host would log in to the original as a superuser.
 */
const HIDING = `ip link set lo up 2>/dev/null || ifconfig lo up 2>/dev/null
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then
    mount -t tmpfs -o ro,size=4k,mode=755 safemigrate "$1" || exit 1
  elif [ -e "$1" ]; then
    mount --bind /dev/null "$1" || exit 1
  fi
  shift
done
shift
exec "$@"`;

const POLITE = [
  ['nice', '-n', '5'],
  ['ionice', '-c', '2', '-n', '7'],
] as const;

/**
 * Tries the sandbox with a program that does nothing (some 20 ms).
 * @param hidden folders of the original, and its sockets.
 */
export async function findSandbox(
  owner: { readonly uid: number; readonly gid: number },
  hidden: readonly string[],
): Promise<Sandbox> {
  const polite = (await Promise.all(POLITE.map(async (words) => ((await works(words)) ? words : [])))).flat();
  if (process.getuid?.() !== 0) {
    for (const namespace of OF_A_USER)
      if (await works(namespace))
        return { through: [...polite, ...namespace], user: undefined, closed: false, caveats: [OFFLINE] };
    return { through: polite, user: undefined, closed: false, caveats: [OPEN] };
  }
  const asOwner = ['setpriv', `--reuid=${owner.uid}`, `--regid=${owner.gid}`, '--clear-groups'];
  const inside = [
    'unshare',
    '--net',
    '--mount',
    '/bin/sh',
    '-c',
    HIDING,
    'safemigrate-cage',
    ...hidden,
    '--',
  ];
  if (await works([...inside, ...asOwner]))
    return { through: [...polite, ...inside, ...asOwner], user: undefined, closed: true, caveats: [] };
  return { through: polite, user: owner, closed: false, caveats: [OPEN] };
}

/** An ordinary user gets a network namespace only in a user namespace, in which it cannot hide folders and keep its identity. */
const OF_A_USER = [
  ['unshare', '--map-current-user', '--net'],
  ['unshare', '--user', '--net'],
];

const OPEN: Caveat = {
  path: 'clone',
  kind: 'estimate',
  reason:
    'this machine cannot take the network away from the clone: functions in it could reach other systems',
};

const OFFLINE: Caveat = {
  path: 'clone',
  kind: 'estimate',
  reason:
    'without root only the network can be taken away from the clone: functions in it could reach the files and ' +
    "sockets of the target's user",
};

/** Shared folders, which stay visible; only the original's sockets in them are hidden. */
const COMMON = ['/tmp', '/var/tmp', '/dev/shm'];

/** The locations of the original on this machine. */
export interface Places {
  readonly folders: readonly string[];
  readonly socketFolders: readonly string[];
  readonly port: number;
}

/** Lists what is hidden from a clone, except folders that it needs, such as its own and that of its programs. */
export function hiddenFrom(needed: readonly string[], places: readonly Places[]): string[] {
  const stays = (outer: string) =>
    COMMON.includes(outer) || needed.some((folder) => `${folder}/`.startsWith(`${outer}/`));
  const hidden = places.flatMap(({ folders, socketFolders, port }) => [
    ...folders.filter((outer) => !stays(outer)),
    ...socketFolders.map((outer) => (stays(outer) ? `${outer}/.s.PGSQL.${port}` : outer)),
  ]);
  return [...new Set(hidden)];
}

async function works(words: readonly string[]): Promise<boolean> {
  const [program = '', ...rest] = [...words, 'true'];
  try {
    await run(program, rest, { timeout: 5_000 });
    return true;
  } catch {
    return false;
  }
}
