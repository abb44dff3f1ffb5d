import { existsSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { shippedFile } from '../../package.ts';
import { isExecutable } from '../resolve.ts';
import { NAME_SERVER } from './name-server.ts';

// The words of the two ways to a sandbox: a private network with a loopback device of its own, private process ids, and covered
// Unix sockets. The files, the user, the terminal and the working folder stay as they are outside.

/** Rights with which root could take the covers away or reach into the machine; the rest of them stays. */
const DROPPED = ['sys_admin', 'sys_module', 'sys_rawio', 'sys_ptrace'];

/** Folders of the system only: PATH may hold some of the code that is rehearsed. */
const SYSTEM_FOLDERS = [
  '/usr/local/bin',
  '/usr/sbin',
  '/usr/bin',
  '/sbin',
  '/bin',
  '/run/current-system/sw/bin',
];

/** Finds a program of the system; undefined if it is not installed. */
export function systemProgram(name: string): string | undefined {
  return SYSTEM_FOLDERS.map((folder) => path.join(folder, name)).find(isExecutable);
}

/** The signals go to the command, which is in the same process group; what stands around it must not end before it. */
const IGNORING = 'trap "" INT QUIT TERM HUP; ';

/** Names are asked of our own server alone, at once and once. */
const RESOLV_CONF = `nameserver ${NAME_SERVER}\noptions timeout:1 attempts:1`;

/** Path of the file that programs read for their name server: often it is a link, and links cannot be covered; "" if there is none. */
function resolvConfFile(): string {
  try {
    return realpathSync('/etc/resolv.conf');
  } catch {
    return '';
  }
}

/** $1 and $2 hold the contents of /etc/hosts and /etc/resolv.conf, which bubblewrap reads from descriptors 9 and 8. */
const WITH_FILES = `${IGNORING}hosts=$1 resolv=$2; shift 2; exec "$@" 9<<END 8<<END2
$hosts
END
$resolv
END2`;

/** The parts in which a sandbox differs from the machine. */
export interface SandboxParts {
  /** Folders and sockets that are covered. */
  readonly covered: readonly string[];
  /** Folders and files that are read-only inside; of one in another, the outer comes first. */
  readonly readOnly: readonly string[];
  /** Contents of /etc/hosts inside; null: unchanged. */
  readonly hosts: string | null;
}

/** Writes the words of bubblewrap. @returns the words before the program, or undefined if bubblewrap is not installed. */
export function bubblewrapWords({ covered, readOnly, hosts }: SandboxParts): string[] | undefined {
  const program = systemProgram('bwrap');
  const resolvConf = resolvConfFile();
  if (program === undefined) return undefined;
  const asRoot = process.getuid?.() === 0;
  return [
    ...['/bin/sh', '-c', WITH_FILES, 'safemigrate-sandbox', hosts ?? '', RESOLV_CONF],
    ...[program, '--dev-bind', '/', '/', '--unshare-net', '--unshare-pid', '--proc', '/proc'],
    ...readOnly.flatMap((place) => ['--ro-bind-try', place, place]),
    ...covered.flatMap((file) => (isFolder(file) ? ['--tmpfs', file] : ['--ro-bind', '/dev/null', file])),
    ...(hosts === null ? [] : ['--ro-bind-data', '9', '/etc/hosts']),
    ...(resolvConf === '' ? [] : ['--ro-bind-data', '8', resolvConf]),
    ...(asRoot ? DROPPED.flatMap((right) => ['--cap-drop', `CAP_${right.toUpperCase()}`]) : []),
    // Relays and the name server listen on ports below 1024.
    ...(asRoot ? [] : ['--cap-add', 'CAP_NET_BIND_SERVICE']),
    ...['--die-with-parent', '--'],
  ];
}

/** Makes each place up to `--` read-only. What is mounted within is a place by itself, and is kept in view: without it the kernel refuses. */
const MAKE_READ_ONLY = `while [ "$1" != -- ]; do
  mount --rbind "$1" "$1" && mount -o remount,bind,ro "$1" || [ ! -e "$1" ] || exit 1
  shift
done
shift`;

/**
 * Arguments: the contents of /etc/hosts or nothing, those of /etc/resolv.conf and its path or nothing, the places that become read-only,
 * `--`, the paths to cover, `--`, the program. A mount over /proc holds the new files, so that none of this machine has to. What is removed meanwhile needs no cover.
 */
const INSIDE = `ip link set lo up 2>/dev/null || ifconfig lo up || exit 1
mount -t tmpfs -o mode=755 safemigrate /proc || exit 1
if [ -n "$1" ]; then
  printf '%s\\n' "$1" > /proc/hosts && mount --bind /proc/hosts /etc/hosts || exit 1
fi
if [ -n "$3" ]; then
  printf '%s\\n' "$2" > /proc/resolv && mount --bind /proc/resolv "$3" || exit 1
fi
shift 3
mount -t proc proc /proc || exit 1
${MAKE_READ_ONLY}
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mount -t tmpfs safemigrate "$1" || [ ! -e "$1" ] || exit 1
  elif [ -e "$1" ]; then mount --bind /dev/null "$1" || [ ! -e "$1" ] || exit 1
  fi
  shift
done
shift
exec "$@"`;

/** @returns the words before the program, or undefined if util-linux lacks what they need. */
export function unshareWords({ covered, readOnly, hosts }: SandboxParts): string[] | undefined {
  const [unshare, setpriv] = [systemProgram('unshare'), systemProgram('setpriv')];
  if (unshare === undefined || setpriv === undefined) return undefined;
  const asRoot = process.getuid?.() === 0;
  const dropped = DROPPED.map((right) => `-${right}`).join(',');
  // Relays and the name server listen on ports below 1024.
  const kept = '-all,+net_bind_service';
  const rights = asRoot
    ? [`--bounding-set=${dropped}`, `--inh-caps=${dropped}`]
    : [`--ambient-caps=${kept}`, `--inh-caps=${kept}`];
  return [
    ...['/bin/sh', '-c', `${IGNORING}exec "$@"`, 'safemigrate-sandbox', unshare],
    ...(asRoot ? [] : ['--map-current-user', '--keep-caps']),
    ...['--net', '--mount', '--pid', '--fork', '--kill-child'],
    ...['/bin/sh', '-c', `PATH=${SYSTEM_FOLDERS.join(':')}; ${INSIDE}`, 'safemigrate-sandbox'],
    ...[
      hosts ?? '',
      RESOLV_CONF,
      resolvConfFile(),
      ...readOnly,
      '--',
      ...covered,
      '--',
      setpriv,
      ...rights,
      '--no-new-privs',
      '--',
    ],
  ];
}

const COVERING = `${MAKE_READ_ONLY}
while [ "$1" != -- ]; do mount --bind /dev/null "$1"; shift; done; shift; exec "$@"`;

/** The words that cover these sockets for a program and make these places read-only, as root, without anything else that a program could notice. */
export function coverWords({
  covered,
  readOnly,
}: Pick<SandboxParts, 'covered' | 'readOnly'>): string[] | undefined {
  const unshare = systemProgram('unshare');
  if (unshare === undefined) return undefined;
  const script = COVERING.replaceAll(/\bmount (?=-)/g, `${systemProgram('mount') ?? 'mount'} `);
  return [
    ...[unshare, '--mount', '/bin/sh', '-c', script, 'safemigrate-cover'],
    ...[...readOnly, '--', ...covered, '--'],
  ];
}

/** Variables that a shell changes on its way to the program. */
const OF_SHELLS = ['PWD', 'OLDPWD', 'SHLVL', '_'];

/** The words that give them back the values of this environment. */
export function restoringWords(env: Readonly<Record<string, string>>): string[] {
  const program = systemProgram('env') ?? 'env';
  return [
    program,
    ...OF_SHELLS.filter((name) => env[name] === undefined).flatMap((name) => ['-u', name]),
    ...OF_SHELLS.flatMap((name) => (env[name] === undefined ? [] : [`${name}=${env[name]}`])),
  ];
}

function isFolder(file: string): boolean {
  return existsSync(`${file}/.`);
}

// The words of the ways to restrict a command that need no namespaces: it may connect over TCP to some ports, whatever the host,
// and to no others. So these ports have to be known before it starts.

export type Restriction = 'landlock' | 'sandbox-exec';

/** Number of the system call prctl; those of Landlock are the same everywhere. */
const PRCTL: Readonly<Partial<Record<NodeJS.Architecture, number>>> = { x64: 157, arm64: 167 };

/** @returns the words before the program, or why there are none. */
export function landlockWords(ports: readonly number[]): string[] | string {
  const prctl = PRCTL[process.arch];
  if (process.platform !== 'linux' || prctl === undefined)
    return `it is not tried on ${process.platform}/${process.arch}`;
  const [perl, python] = [systemProgram('perl'), systemProgram('python3')];
  const given = [String(prctl), ports.join(',')];
  const script = (name: string) => fileURLToPath(shippedFile(`command/sandbox/landlock.${name}`));
  if (perl) return [perl, script('pl'), ...given];
  // It follows no variables, and loads nothing of the working folder.
  if (python) return [python, '-I', '-S', script('py'), ...given];
  return 'it needs perl or python3';
}

/** Variables that perl itself follows. */
const OF_PERL = /^PERL|^LC_ALL$/;

/** The environment for a program behind Landlock's words, which give it these variables back. */
export function keptEnvironment(env: Readonly<Record<string, string>>): Record<string, string> {
  const renamed = Object.entries(env).map(([name, value]) => [
    OF_PERL.test(name) ? `SAFEMIGRATE_KEPT_${name}` : name,
    value,
  ]);
  return { ...Object.fromEntries(renamed), LC_ALL: 'C' };
}

const SANDBOX_EXEC = '/usr/bin/sandbox-exec';

/** The same on macOS, which also closes all Unix sockets but that of the resolver. Untried. */
export function sandboxExecWords(ports: readonly number[]): string[] | string {
  if (process.platform !== 'darwin' || !existsSync(SANDBOX_EXEC)) return 'it is part of macOS';
  const allowed = ports.map((port) => `(remote tcp "*:${port}")`).join(' ');
  const profile = `(version 1) (allow default) (deny network-outbound)
    (allow network-outbound ${allowed} (literal "/private/var/run/mDNSResponder"))`;
  return [SANDBOX_EXEC, '-p', profile];
}
