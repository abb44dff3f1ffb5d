import { execFile, spawn } from 'node:child_process';
import { copyFile, cp, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import { skipReason } from '../helpers/requirements.ts';
import { toolchain } from '../helpers/toolchains.ts';

/**
 * ZFS as a kernel module, in an emulated machine: `zfs-kernel/trials.mjs` clones PostgreSQL in the usual layouts there, under load, with
 * the built program. The machine is built once, which takes ten minutes.
 */
const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PARTS = path.join(ROOT, 'test/soak/zfs-kernel');
const LAYOUTS = 5;
const SIZED = 2;

const machine =
  process.getuid?.() === 0
    ? await toolchain('zfs-machine', PARTS, {
        pins: ['build-machine.sh'],
        probe: [
          'sh',
          '-c',
          'command -v qemu-system-x86_64 && command -v debootstrap && command -v mkfs.ext4',
        ],
        needs: 'qemu-system-x86_64, debootstrap and mkfs.ext4',
        install: [['bash', 'build-machine.sh']],
        timeoutMs: 40 * 60_000,
      })
    : { missing: 'an emulated machine needs root' };

interface Result {
  readonly version?: string;
  readonly name: string;
  readonly transactions: number;
  readonly command: number | null;
  readonly errors: string;
  readonly left: readonly string[];
  /** Milliseconds until a clone was ready, by size; null: not measured. */
  readonly ready: Readonly<Record<string, number>> | null;
  readonly clone: { strategy: string; containment: string; durationMs: number; uniqueBytes: number };
}

test.skipIf(skipReason('missing' in machine ? machine.missing : null))(
  'clones on a ZFS of the kernel are taken by snapshots in every layout, under load, and leave nothing',
  async () => {
    const results = await emulate('folder' in machine ? machine.folder : '');
    const version = results.find((each) => each.version !== undefined)?.version ?? '';
    const layouts = results.filter(({ name }) => name !== undefined);
    for (const layout of layouts)
      expect(layout).toMatchObject({
        errors: '',
        command: 0,
        left: [],
        clone: { strategy: 'zfs snapshot', containment: 'sandbox' },
      });
    expect(layouts).toHaveLength(LAYOUTS);
    recordFigures(
      `ZFS in the kernel (${version}), emulated`,
      layouts.map(({ name, clone, transactions }) => ({
        layout: name,
        'clone, ms': Math.round(clone.durationMs),
        'its own space, kB': Math.round(clone.uniqueBytes / 1024),
        'transactions meanwhile, none failed': transactions,
      })),
      ['An emulated processor is many times slower than a real one.'],
    );
    const sized = layouts.flatMap(({ name, ready }) =>
      ready ? [{ name, times: Object.values(ready), ready }] : [],
    );
    recordFigures(
      'ZFS in the kernel, emulated: ready by size, ms',
      sized.map(({ name, ready }) => ({
        layout: name,
        ...Object.fromEntries(Object.entries(ready).map(([size, ms]) => [size, Math.round(ms)])),
      })),
    );
    expect(sized).toHaveLength(SIZED);
    for (const { name, times } of sized)
      expect(Math.max(...times) / Math.min(...times), `${name}: ${times}`).toBeLessThan(1.5);
  },
  120 * 60_000,
);

/** Runs the trials in the machine, and returns what they found. */
async function emulate(built: string): Promise<Result[]> {
  const folder = await mkdtemp(path.join(built, 'run-'));
  try {
    const image = await makeImage(built, folder);
    const boot = path.join(built, 'root/boot');
    const named = async (prefix: string) =>
      path.join(boot, (await readdir(boot)).find((name) => name.startsWith(prefix)) ?? prefix);
    const emulated = spawn(
      'qemu-system-x86_64',
      [
        ...['-accel', 'tcg,thread=multi', '-cpu', 'max', '-m', '3G', '-smp', '2', '-net', 'none'],
        ...['-nographic', '-no-reboot', '-drive', `file=${image},format=raw,if=virtio,cache=unsafe`],
        ...['-kernel', await named('vmlinuz-'), '-initrd', await named('initrd.img-')],
        ...['-append', 'root=/dev/vda rw console=ttyS0 init=/init.sh mitigations=off panic=-1 quiet'],
      ],
      { stdio: ['ignore', 'pipe', 'inherit'], timeout: 110 * 60_000 },
    );
    const results: Result[] = [];
    for await (const line of createInterface(emulated.stdout)) {
      console.log(line);
      const found = /RESULT (\{.*\})/.exec(line)?.[1];
      if (found !== undefined) results.push(JSON.parse(found));
      if (/END \d/.test(line)) emulated.kill('SIGTERM');
    }
    return results;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Makes a disk of the machine and the program. */
async function makeImage(built: string, folder: string): Promise<string> {
  const tree = path.join(folder, 'root');
  const image = path.join(folder, 'image');
  // Hard links: only the new files take space.
  await run('cp', ['-al', path.join(built, 'root'), tree]);
  for (const name of ['init.sh', 'trials.mjs']) await copyFile(path.join(PARTS, name), path.join(tree, name));
  const program = path.join(tree, 'program');
  await mkdir(program);
  await cp(path.join(ROOT, 'dist'), path.join(program, 'dist'), { recursive: true });
  await copyFile(path.join(ROOT, 'package.json'), path.join(program, 'package.json'));
  const { stdout } = await run('npm', ['ls', '--omit=dev', '--omit=optional', '--all', '--parseable'], {
    cwd: ROOT,
  });
  for (const from of stdout.split('\n').filter((line) => line.includes('/node_modules/')))
    await cp(from, path.join(program, path.relative(ROOT, from)), { recursive: true });
  await run('mkfs.ext4', ['-q', '-F', '-d', tree, image, '8G']);
  return image;
}
