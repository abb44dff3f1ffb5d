import { copyFileSync, readFileSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import packageFacts from '../../package.json' with { type: 'json' };
import { emptyMachine, noEmptyMachine, onMachine } from '../helpers/empty-machine.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { skipReason } from '../helpers/requirements.ts';
import { TRIAL_MACHINES } from './executable/machines.ts';

/** The single executable on machines without Node, and without anything of this project but that file. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const RELEASE = path.join(ROOT, 'release');
const NAME = `safemigrate-${packageFacts.version}-${process.platform}-${process.arch}`;
const TRIAL = fileURLToPath(new URL('executable/trial.sh', import.meta.url));

const skipped = skipReason(noEmptyMachine ?? (await loopFileSystemObstacle('xfs')));

let folder: string;

beforeAll(async () => {
  if (skipped) return;
  folder = await mkdtemp(path.join(tmpdir(), 'safemigrate-executable-'));
  await execa('npm', ['run', '--silent', 'package'], { cwd: ROOT });
  await makePackages(ROOT);
  await execa('npm', ['run', '--silent', 'package', '--', 'musl'], { cwd: ROOT });
}, 900_000);

afterAll(() => {
  if (folder) rmSync(folder, { recursive: true, force: true });
}, 600_000);

const PACKAGES = {
  deb: `safemigrate_${packageFacts.version}_${process.arch === 'x64' ? 'amd64' : process.arch}.deb`,
  rpm: `safemigrate-${packageFacts.version}-1.${process.arch === 'x64' ? 'x86_64' : 'aarch64'}.rpm`,
};

const makePackages = (cwd: string) =>
  execa('node', ['packaging/linux-packages.mjs'], {
    cwd,
    env: { MAINTAINER: 'Package Tests <tests@safemigrate.example.org>' },
  });

/** Starts a server on /disk, and makes the trial as root and as postgres. */
const AS_BOTH = `set -e
  PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
  export PATH
  mkdir -m 700 /disk/pg
  chown postgres /disk/pg
  su postgres -s /bin/sh -c "PATH=$PATH"'
    initdb -D /disk/pg -A trust && pg_ctl -D /disk/pg -o "-p 5417 -k /disk/pg" -w -l /disk/pg/log start' > /dev/null
  DATABASE_URL='postgresql://postgres@/postgres?host=/disk/pg&port=5417' run-sql 'CREATE DATABASE shop'
  export DATABASE_URL='postgresql://postgres@/shop?host=/disk/pg&port=5417'
  run-sql "CREATE TABLE t AS SELECT g AS id, 'x' || g AS v FROM generate_series(1, 100000) g"
  sh /trial.sh
  su postgres -s /bin/sh -c "PATH=$PATH sh /trial.sh"`;

describe.skipIf(skipped).each(TRIAL_MACHINES)('$what', ({ libc = '', make }) => {
  let machine: string;
  let disk: LoopFileSystem;

  beforeAll(async () => {
    machine = await make(folder);
    copyFileSync(path.join(RELEASE, NAME + libc), `${machine}/usr/local/bin/safemigrate`);
    copyFileSync(TRIAL, `${machine}/trial.sh`);
    disk = await loopFileSystem('xfs', 2 ** 31);
  }, 1_200_000);

  afterAll(() => disk?.destroy());

  test('rehearses on a copy-on-write clone, applies, swaps, is killed and cleans up, as root and as postgres', async () => {
    const { all, exitCode } = await onMachine(machine, 'root', AS_BOTH, {
      disk: disk.folder,
      timeoutMs: 1_200_000,
    });
    expect(exitCode, all).toBe(0);
    expect(all).toMatch(/^done as root$[\s\S]*^done as postgres$/m);
  });
});

test.skipIf(skipped)(
  'a build of the same commit in another folder has the same bytes',
  async () => {
    const clone = path.join(folder, 'clone');
    await execa('git', ['clone', '--quiet', ROOT, clone]);
    const { stdout } = await execa('git', ['status', '--porcelain', '--untracked-files=no'], { cwd: ROOT });
    expect(stdout, 'uncommitted changes are not in the other build').toBe('');
    await execa('cp', ['-al', path.join(ROOT, 'node_modules'), clone]);
    await execa('npm', ['run', '--silent', 'package'], { cwd: clone });
    await makePackages(clone);
    for (const name of [NAME, `${NAME}.gz`, `${NAME}.cdx.json`, ...Object.values(PACKAGES)])
      expect(
        readFileSync(path.join(clone, 'release', name)).equals(readFileSync(path.join(RELEASE, name))),
        name,
      ).toBe(true);
  },
  900_000,
);

test.skipIf(skipped)('the .deb and the .rpm install, run, go, and leave nothing', async () => {
  const machine = await emptyMachine(path.join(folder, 'packages'), 'bookworm', ['rpm']);
  // debootstrap does not configure the many packages that lintian needs in their order.
  const lintian = 'apt-get update && apt-get install -y --no-install-recommends lintian';
  const installed = await onMachine(machine, 'root', lintian, { timeoutMs: 1_200_000 });
  expect(installed.exitCode, installed.all).toBe(0);
  for (const [kind, name] of Object.entries(PACKAGES)) {
    copyFileSync(path.join(RELEASE, name), `${machine}/root/${name}`);
    copyFileSync(path.join(ROOT, 'packaging', `check-${kind}.sh`), `${machine}/root/check.sh`);
    const first = kind === 'deb' ? `lintian --fail-on error /root/${name} && ` : '';
    const { all, exitCode } = await onMachine(machine, 'root', `${first}sh /root/check.sh /root/${name}`);
    expect(exitCode, all).toBe(0);
  }
});
