import { existsSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { shippedText } from '../../package.ts';
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

/**
 * Arguments: the contents of /etc/hosts and of /etc/resolv.conf inside, then each path to cover with its line of a table of mounts,
 * `--`, each replacement with the path at which it is seen, `--`, the program. A mount that goes again holds the files, so that none of this machine has to. One mount(8) covers all paths: one
 * for each takes 6 ms. Where it fails they are covered one by one, and what was removed meanwhile needs no cover: bubblewrap itself
 * would make the folder again, outside as well, in the way of whoever is removing it.
 */
const COVER = `mount -t tmpfs -o mode=755 safemigrate /proc/fs || exit 1
printf '%s\\n' "$1" > /proc/fs/hosts
printf '%s\\n' "$2" > /proc/fs/resolv
shift 2
lines() { while [ "$1" != -- ]; do printf '%s\\n' "$2"; shift 2; done; }
singly() {
  while [ "$1" != -- ]; do
    printf '%s\\n' "$2" > /proc/fs/table
    said=$(mount -a -T /proc/fs/table 2>&1) || [ ! -e "$1" ] || { printf '%s\\n' "$said" >&2; return 1; }
    shift 2
  done
}
lines "$@" > /proc/fs/table
mount -a -T /proc/fs/table 2>/dev/null || singly "$@" || exit 1
umount /proc/fs || exit 1
while [ "$1" != -- ]; do shift; done
shift
while [ "$1" != -- ]; do
  [ -e "$2" ] || : > "$2"
  mount --bind "$1" "$2" || exit 1
  shift 2
done
shift
exec "$@"`;

/**
 * Gives the loopback device each address up to `--`. One that cannot be added is not reached: the report's attempts cannot name it then.
 * Without ip(8) only those of IPv4 can be (SIOCSIFADDR).
 */
const ADD_ADDRESSES = `while [ "$1" != -- ]; do
  ip address add "$1" dev lo 2>/dev/null || perl -e 'my ($address, $alias) = @ARGV; socket(S, 2, 2, 0) &&
    ioctl(S, 0x8916, $_ = pack("a16 S n C4 x8", "lo:$alias", 2, 0, split(/[.]/, $address)))' "$1" "$#" 2>/dev/null || :
  shift
done
shift
`;

/** A path with its line in the format of fstab(5), which writes blanks, tabs, line breaks and backslashes in octal. */
function mountAt(file: string, source?: string): [string, string] {
  const place = file.replace(/[ \t\n\\]/g, (sign) => `\\${sign.charCodeAt(0).toString(8).padStart(3, '0')}`);
  const isFolder = source === undefined && existsSync(`${file}/.`);
  return [
    file,
    isFolder ? `safemigrate ${place} tmpfs defaults 0 0` : `${source ?? '/dev/null'} ${place} none bind 0 0`,
  ];
}

/** The parts in which a sandbox differs from the machine. */
export interface SandboxParts {
  /** Folders and sockets that are covered. */
  readonly covered: readonly string[];
  /** Folders and files that are read-only inside; of one in another, the outer comes first. */
  readonly readOnly: readonly string[];
  /** Contents of /etc/hosts inside; null: unchanged. */
  readonly hosts: string | null;
  /** Addresses of the loopback device besides its own. */
  readonly addresses: readonly string[];
  /** Files and sockets of ours that are seen in the place of others. */
  readonly replaced: readonly { readonly file: string; readonly source: string }[];
}

/** The words that cover paths with the system's own programs, and run a program after it without the rights to undo that. */
function coveringWords(
  { covered, hosts, addresses, replaced }: SandboxParts,
  setpriv: string,
  [before = '', ...itsArguments]: readonly string[] = [],
): string[] {
  const dropped = DROPPED.map((right) => `-${right}`).join(',');
  // Relays and the name server listen on ports below 1024.
  const kept = '-all,+net_bind_service';
  const rights =
    process.getuid?.() === 0
      ? [`--bounding-set=${dropped}`, `--inh-caps=${dropped}`]
      : [`--ambient-caps=${kept}`, `--inh-caps=${kept}`];
  const resolvConf = resolvConfFile();
  const files = [
    ...(hosts === null ? [] : mountAt('/etc/hosts', '/proc/fs/hosts')),
    ...(resolvConf === '' ? [] : mountAt(resolvConf, '/proc/fs/resolv')),
  ];
  return [
    ...['/bin/sh', '-c', `PATH=${SYSTEM_FOLDERS.join(':')}; ${before}${ADD_ADDRESSES}${COVER}`],
    ...['safemigrate-sandbox', ...itsArguments, ...addresses, '--', hosts ?? '', RESOLV_CONF, ...files],
    ...[...covered.flatMap((file) => mountAt(file)), '--'],
    ...[...replaced.flatMap(({ file, source }) => [source, file]), '--'],
    ...[setpriv, ...rights, '--no-new-privs', '--'],
  ];
}

/** Rights of an ordinary user while the sandbox is made. */
const NEEDED = ['CAP_NET_BIND_SERVICE', 'CAP_NET_ADMIN', 'CAP_SYS_ADMIN'];

/**
 * Writes the words of bubblewrap.
 * @returns the words before the program, or undefined if bubblewrap or util-linux's setpriv is not installed.
 */
export function bubblewrapWords(parts: SandboxParts): string[] | undefined {
  const [program, setpriv] = [systemProgram('bwrap'), systemProgram('setpriv')];
  if (program === undefined || setpriv === undefined) return undefined;
  const asRoot = process.getuid?.() === 0;
  return [
    ...['/bin/sh', '-c', `${IGNORING}exec "$@"`, 'safemigrate-sandbox'],
    ...[program, '--dev-bind', '/', '/', '--unshare-net', '--unshare-pid', '--proc', '/proc'],
    ...parts.readOnly.flatMap((place) => ['--ro-bind-try', place, place]),
    ...(asRoot ? [] : NEEDED.flatMap((right) => ['--cap-add', right])),
    ...['--die-with-parent', '--'],
    ...coveringWords(parts, setpriv),
  ];
}

/** Makes each place up to `--` read-only. What is mounted within is a place by itself, and is kept in view: without it the kernel refuses. */
const MAKE_READ_ONLY = `while [ "$1" != -- ]; do
  mount --rbind "$1" "$1" && mount -o remount,bind,ro "$1" || [ ! -e "$1" ] || exit 1
  shift
done
shift
`;

/**
 * Brings the loopback device up (SIOCSIFFLAGS with IFF_UP, IFF_LOOPBACK and IFF_RUNNING). A small system has perl alone.
 * Its arguments are those of MAKE_READ_ONLY.
 */
const OWN_NETWORK = `ip link set lo up 2>/dev/null || ifconfig lo up 2>/dev/null ||
  perl -e 'socket(S, 2, 2, 0) && ioctl(S, 0x8914, $_ = pack("a16 s x22", "lo", 73)) || exit 1' 2>/dev/null ||
  { echo 'the loopback device needs ip (iproute2), ifconfig or perl' >&2; exit 1; }
mount -t proc proc /proc || exit 1
${MAKE_READ_ONLY}`;

/** @returns the words before the program, or undefined if util-linux lacks what they need. */
export function unshareWords(parts: SandboxParts): string[] | undefined {
  const [unshare, setpriv] = [systemProgram('unshare'), systemProgram('setpriv')];
  if (unshare === undefined || setpriv === undefined) return undefined;
  return [
    ...['/bin/sh', '-c', `${IGNORING}exec "$@"`, 'safemigrate-sandbox', unshare],
    ...(process.getuid?.() === 0 ? [] : ['--map-current-user', '--keep-caps']),
    ...['--net', '--mount', '--pid', '--fork', '--kill-child'],
    ...coveringWords(parts, setpriv, [OWN_NETWORK, ...parts.readOnly, '--']),
  ];
}

const COVERING = `${MAKE_READ_ONLY}while [ "$1" != -- ]; do mount --bind /dev/null "$1"; shift; done; shift; exec "$@"`;

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
  const script = (name: string) => shippedText(`command/sandbox/landlock.${name}`);
  if (perl) return [perl, '-e', script('pl'), ...given];
  // It follows no variables, and loads nothing of the working folder.
  if (python) return [python, '-I', '-S', '-c', script('py'), ...given];
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
