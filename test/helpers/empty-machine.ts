import { spawnSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import path from 'node:path';
import { execa } from 'execa';
import { plainEnvironment } from './cli.ts';

const MISSING = [
  ...(process.getuid?.() === 0 ? [] : ['root']),
  ...['debootstrap', 'unshare'].filter((name) => spawnSync(name, ['--version']).error !== undefined),
];

/** Why there can be no empty machine here; null if there can. */
export const noEmptyMachine = MISSING.length === 0 ? null : `an empty machine needs ${MISSING.join(', ')}`;

/**
 * Makes a Debian as debootstrap does (minbase), in a folder.
 * @param suite bookworm, trixie
 * @param packages further ones
 */
export async function emptyMachine(folder: string, suite: string, packages: string[] = []): Promise<string> {
  const machine = path.join(folder, suite);
  const more = packages.length > 0 ? [`--include=${packages.join(',')}`] : [];
  await execa('debootstrap', ['--variant=minbase', ...more, suite, machine]);
  for (const file of ['/etc/resolv.conf', '/etc/hosts']) copyFileSync(file, machine + file);
  return machine;
}

/**
 * Mounts what a machine has beside its files, where no other process sees it, and begins there: all of it ends with the command. In a mere
 * chroot the kernel makes no mount namespaces, so that commands would have no sandbox.
 */
const ENTER = `mount --bind "$0" "$0" && cd "$0" && mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev &&
  mount -t tmpfs -o mode=1777 tmpfs tmp && { [ -z "$DISK" ] || { mkdir -p disk && mount --bind "$DISK" disk; }; } &&
  mkdir -p .old && pivot_root . .old && cd / && umount -l .old && exec "$@"`;

/**
 * Runs a line of sh on the machine, and ends what it has left running.
 * @param options `disk` is mounted as /disk.
 * @returns everything that it printed, and its exit code.
 */
export function onMachine(
  machine: string,
  user: string,
  line: string,
  { env = {}, disk = '', timeoutMs = 300_000 } = {},
) {
  const apart = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child'];
  return execa('unshare', [...apart, 'sh', '-c', ENTER, machine, 'su', user, '-s', '/bin/sh', '-c', line], {
    env: {
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      PROCESS_OF_TEST_FILE: plainEnvironment().PROCESS_OF_TEST_FILE,
      DEBIAN_FRONTEND: 'noninteractive',
      DISK: disk,
      ...env,
    },
    extendEnv: false,
    all: true,
    reject: false,
    stdin: 'ignore',
    timeout: timeoutMs,
  });
}
