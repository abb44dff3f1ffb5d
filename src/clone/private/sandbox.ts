import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { foldersBeside } from '../../local-server/installation.ts';
import type { Caveat } from '../../model/report.ts';
import type { Owner } from '../../ownership/folder-records.ts';
import { shippedText } from '../../package.ts';

const run = promisify(execFile);

/** The way to start a second server so that it cannot reach other systems. */
export interface Sandbox {
  /**
   * `sandbox`: without network, without other processes, and with no files but programs, libraries and its own: nothing in the
   * clone can reach other systems. `offline`: only without network. `own-server`: like any other program.
   */
  readonly containment: 'sandbox' | 'offline' | 'own-server';
  /** Returns the words before the server's own command line. */
  through(folders: OwnFolders): string[];
  /** User for spawn, if the words do not change it. */
  readonly user: Owner | undefined;
  readonly caveats: Caveat[];
}

/** The folders that the server may write to. */
export interface OwnFolders {
  readonly folder: string;
  readonly socketFolder: string;
  /** If its files lie in snapshots, among others that it must not see: their folders in there. */
  readonly places?: readonly string[] | undefined;
}

/** Everything that the server may see, besides its own folders, and what it must not see. All without symbolic links. */
export interface View {
  /** The folder of `postgres`. */
  readonly programs: string;
  /** Other folders with libraries. */
  readonly libraries: readonly string[];
  /** Folders of the original: data, tablespaces, sockets. They matter only inside folders that are shown. */
  readonly hidden: readonly string[];
}

const SCRIPT = shippedText('clone/private/sandbox.sh');

/** Programs, libraries and configuration of the machine. Debian keeps dictionaries in the last one. */
const SYSTEM = [
  ...[
    '/bin',
    '/etc',
    '/gnu',
    '/lib',
    '/lib32',
    '/lib64',
    '/libx32',
    '/nix',
    '/opt',
    '/sbin',
    '/snap',
    '/usr',
  ],
  '/var/cache/postgresql',
];

/** Folders of which every machine has one; the sandbox covers one that contains nothing to be shown. */
const MOUNTPOINTS = ['/run', '/mnt', '/media', '/srv', '/tmp'];

const NAMESPACES = ['unshare', '--net', '--mount', '--pid', '--ipc', '--fork', '--kill-child'];
const AS_USER = ['--map-current-user', '--keep-caps'];
const NO_RIGHTS = ['--inh-caps=-all', '--ambient-caps=-all', '--bounding-set=-all', '--no-new-privs'];

const POLITE = [
  ['nice', '-n', '5'],
  ['ionice', '-c', '2', '-n', '7'],
] as const;

const found = new Map<string, Promise<Sandbox>>();

/**
 * Finds the narrowest sandbox that this machine permits, and tries it with `postgres --version` (30 ms), once for each view; with `true`
 * if the programs are put into the clone's folder later.
 */
export function findSandbox(owner: Owner, view: View): Promise<Sandbox> {
  const key = JSON.stringify([process.getuid?.(), owner, view]);
  const known = found.get(key) ?? trySandboxes(owner, view);
  found.set(key, known);
  return known;
}

async function trySandboxes(owner: Owner, view: View): Promise<Sandbox> {
  const polite = (await Promise.all(POLITE.map(async (words) => ((await works(words)) ? words : [])))).flat();
  const postgres = path.join(view.programs, 'postgres');
  const isRoot = process.getuid?.() === 0;
  const becoming = isRoot
    ? ['setpriv', `--reuid=${owner.uid}`, `--regid=${owner.gid}`, '--clear-groups', '--no-new-privs']
    : ['setpriv', ...NO_RIGHTS];
  const sandboxed = (own?: OwnFolders) => [
    ...NAMESPACES,
    ...(isRoot ? [] : AS_USER),
    ...['/bin/sh', '-c', SCRIPT, 'safemigrate-clone-sandbox'],
    ...sandboxArguments(view, own),
    '--',
    ...becoming,
  ];
  const trial = existsSync(postgres) ? [postgres, '--version'] : ['true'];
  if (await works([...sandboxed(), ...trial]))
    return {
      containment: 'sandbox',
      through: (own) => [...polite, ...sandboxed(own)],
      user: undefined,
      caveats: [],
    };
  for (const offline of isRoot ? [['unshare', '--net', ...becoming]] : OFFLINE_AS_USER)
    if (await works([...offline, 'true']))
      return {
        containment: 'offline',
        through: () => [...polite, ...offline],
        user: undefined,
        caveats: [ONLY_OFFLINE],
      };
  const user = isRoot ? owner : undefined;
  return { containment: 'own-server', through: () => [...polite], user, caveats: [OPEN] };
}

const OFFLINE_AS_USER = [
  ['unshare', '--map-current-user', '--net'],
  ['unshare', '--user', '--net'],
];

const OPEN: Caveat = {
  path: 'clone',
  kind: 'estimate',
  reason:
    'this machine cannot take the network away from the clone: functions in it could reach other systems',
};

const ONLY_OFFLINE: Caveat = {
  path: 'clone',
  kind: 'estimate',
  reason:
    'this machine can take only the network away from the clone: functions in it could reach the files and ' +
    "sockets of the target's user",
};

/** Lists the arguments of sandbox.sh before `--`. */
export function sandboxArguments({ programs, libraries, hidden }: View, own?: OwnFolders): string[] {
  const needed = [programs, ...foldersBeside(programs), ...libraries];
  const shown = needed.filter(
    (folder) =>
      !SYSTEM.some((outer) => isWithin(folder, outer)) || hidden.some((outer) => isWithin(folder, outer)),
  );
  const operations = new Map<string, Operation>();
  for (const folder of [...SYSTEM, ...shown]) operations.set(folder, 'ro');
  for (const folder of hidden) operations.set(folder, 'hide');
  for (const folder of own ? [own.folder, own.socketFolder] : [])
    if (folder === own?.folder || !isWithin(folder, own?.folder ?? '')) operations.set(folder, 'rw');
  if (own?.places) operations.set(path.join(own.folder, 'parts'), 'hide');
  for (const place of own?.places ?? []) operations.set(place, 'rw');
  const places = [...operations.keys()].sort();
  const shows = places.filter((place) => operations.get(place) !== 'hide');
  const mountpoint = MOUNTPOINTS.find((place) => !shows.some((folder) => isWithin(folder, place))) ?? '/mnt';
  const words = places
    .filter((place) => operations.get(place) !== 'hide' || isVisible(path.dirname(place), operations))
    .flatMap((place) => [operations.get(place) ?? '', place, inTable(place)]);
  return [mountpoint, own?.folder ?? '', ...words];
}

type Operation = 'ro' | 'rw' | 'hide';

/** Says whether a folder of this path is seen in the sandbox: what is in a hidden folder is not, unless it is shown itself. */
function isVisible(folder: string, operations: ReadonlyMap<string, Operation>): boolean {
  const operation = operations.get(folder);
  if (operation !== undefined) return operation !== 'hide';
  return folder !== '/' && isVisible(path.dirname(folder), operations);
}

/** Writes a path for a table of mounts (fstab), whose fields end with white space. */
function inTable(place: string): string {
  return place.replace(/[ \t\n\\]/g, (letter) => `\\${letter.charCodeAt(0).toString(8).padStart(3, '0')}`);
}

function isWithin(folder: string, outer: string): boolean {
  return `${folder}/`.startsWith(`${outer}/`);
}

/** Settings that may name folders with libraries. */
const NAMING_LIBRARIES = [
  'dynamic_library_path',
  'extension_control_path',
  'shared_preload_libraries',
  'session_preload_libraries',
  'local_preload_libraries',
];

/** Lists the folders with libraries that these settings name. */
export function libraryFoldersIn(settings: ReadonlyMap<string, string>): string[] {
  const named = NAMING_LIBRARIES.flatMap((name) => settings.get(name)?.match(/\/[^:,"']+/g) ?? []);
  return named.map((place) => (/\.(so|dylib)$/.test(place) ? path.dirname(place) : place));
}

/** A trial takes 30 ms, and some seconds on a machine that is overloaded: that must not cost the sandbox. */
const TRIAL_MS = 30_000;

async function works(words: readonly string[]): Promise<boolean> {
  const [program = '', ...rest] = words;
  try {
    await run(program, rest, { timeout: TRIAL_MS });
    return true;
  } catch {
    return false;
  }
}
