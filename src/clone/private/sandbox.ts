import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Caveat } from '../../model/report.ts';

const run = promisify(execFile);

/** What a second server is started through, so that it cannot reach what the original reaches. */
export interface Sandbox {
  /** Words in front of the server's own. */
  readonly through: readonly string[];
  /** For spawn, where `through` does not change the user itself. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined;
  /** No network at all, and none of the original's sockets and files: nothing in the clone can reach other systems. */
  readonly closed: boolean;
  readonly caveats: Caveat[];
}

/**
 * Runs in new network and mount namespaces, as root: folders that are hidden, `--`, and the program. The loopback device
 * is the namespace's own, and PostgreSQL 14 wants it for its statistics. Sockets by path reach into other
 * network namespaces, hence the hiding: a dblink without a host would log in to the original as its own superuser.
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
 * Finds out by doing it, with a program that does nothing (some 20 ms).
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

/** A user has a network namespace only within a user namespace, and may hide nothing there and stay who it is. */
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

/** Folders that everybody writes to: the clone keeps them, without the original's sockets. */
const COMMON = ['/tmp', '/var/tmp', '/dev/shm'];

/** Where the original is found on this machine. */
export interface Places {
  readonly folders: readonly string[];
  readonly socketFolders: readonly string[];
  readonly port: number;
}

/** What is hidden from a clone; no folder that it needs itself, such as its own and that of its programs, is in it. */
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
