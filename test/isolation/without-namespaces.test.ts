import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { PROGRAM, runProgram, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { psqlCommand } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { clonesOf, withDatabase } from '../helpers/target-state.ts';

let target: TemporaryDatabase;
/** A folder of an ordinary user, with a file that holds the target's URL: nobody rewrites that. */
let folder: string;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18, { sql: 'CREATE TABLE jobs (id int)' });
  folder = temporaryFolder();
  chmodSync(folder, 0o777);
  mkdirSync(path.join(folder, 'state'));
  chmodSync(path.join(folder, 'state'), 0o777);
  writeFileSync(path.join(folder, 'url'), target.url);
});

afterEach(async () => {
  expect(await clonesOf(18, target.name)).toEqual([]);
  await target.drop();
});

const shipped = (name: string) =>
  fileURLToPath(new URL(`../../src/command/sandbox/${name}`, import.meta.url));
const ORDINARY = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
/** The kernel refuses any further namespace: in the one that is made here, their number is set to 0 and all rights are given up. */
const NO_NAMESPACES = [
  ...['unshare', '--user', '--map-current-user', '--keep-caps', 'sh', '-c'],
  'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --ambient-caps=-all --inh-caps=-all "$@"',
  'no-namespaces',
];
/** A filter of system calls, as of an older container: landlock_create_ruleset (444) is not permitted. */
const NO_LANDLOCK = [
  '/usr/bin/python3',
  '-c',
  `
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
step = lambda code, yes, no, value: struct.pack("HBBI", code, yes, no, value)
filters = step(0x20, 0, 0, 0) + step(0x15, 0, 1, 444) + step(0x06, 0, 0, 0x50001) + step(0x06, 0, 0, 0x7FFF0000)
held = ctypes.create_string_buffer(filters)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(held)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
os.execvp(sys.argv[1], sys.argv[1:])`,
];
const hiding = (...programs: string[]) => [
  ...['bwrap', '--dev-bind', '/', '/'],
  ...programs.flatMap((program) => ['--ro-bind', '/dev/null', `/usr/bin/${program}`]),
  '--',
];

/** Works on the clone, then tries the target's port, the way that its own file names. Debian's psql in PATH is a program for perl. */
const INTRUDE = `psql() { "$(ls /usr/lib/postgresql/*/bin/psql | tail -1)" "$@"; }
  psql -X -q "$DATABASE_URL" -c 'CREATE TABLE made (id int)'
  psql -X -q "$(cat url)" -c 'INSERT INTO jobs VALUES (1)' && echo got out >&2
  kill -0 $PPID 2>/dev/null && echo signalled >&2; echo "LC_ALL is $LC_ALL, PERL5OPT is $PERL5OPT" >&2`;

function run(
  before: readonly string[],
  args: readonly string[],
  env: NodeJS.ProcessEnv = { DATABASE_URL: target.url },
) {
  return runProgram([...before, ...PROGRAM, '--clone', 'template', ...args], {
    env: { XDG_STATE_HOME: path.join(folder, 'state'), HOME: folder, ...env },
    folder,
  });
}

const rowsOf = (url: string) =>
  withClient(url, async (client) => (await client.query('SELECT * FROM jobs')).rowCount);

const noLandlock =
  spawnSync('perl', [shipped('landlock.pl'), process.arch === 'arm64' ? '167' : '157', '1']).status === 0
    ? null
    : 'the kernel has no Landlock with rules for TCP, or perl is missing';

describe.skipIf(skipReason(noLandlock))('where there are no namespaces, as an ordinary user', () => {
  test.each([
    ['by perl', [...ORDINARY, ...NO_NAMESPACES]],
    ['by python3, where perl is missing', [...hiding('perl'), ...ORDINARY, ...NO_NAMESPACES]],
  ])('Landlock leaves the command the proxy’s port and no other: %s', async (_, before) => {
    const env = { DATABASE_URL: target.url, LC_ALL: 'C.UTF-8', PERL5OPT: '-Mstrict' };
    const args = ['--format', 'json', '--', 'bash', '-c', INTRUDE];
    const { exitCode, stdout, stderr } = await run(before, args, env);
    expect(exitCode, stderr).toBe(0);
    expect(stderr).toContain('Permission denied');
    expect(stderr).not.toContain('got out');
    expect(stderr).not.toContain('signalled');
    expect(stderr).toContain('LC_ALL is C.UTF-8, PERL5OPT is -Mstrict');
    const { command } = readReport(stdout);
    expect(command).toMatchObject({
      reachedClone: true,
      isolation: {
        kind: 'restricted',
        by: 'landlock',
        reason: expect.stringMatching(/^bubblewrap: .*; unshare: /),
      },
    });
    expect(await rowsOf(target.url)).toBe(0);
  });

  test('--plan, doctor and the report say so, and what it leaves open', async () => {
    const before = [...ORDINARY, ...NO_NAMESPACES];
    const command = ['--', ...psqlCommand('-c', 'CREATE TABLE made (id int)')];
    const said = (await run(before, ['--verbose', ...command])).stderr;
    const planned = (await run(before, ['--plan', ...command])).stdout;
    const doctor = await runProgram([...before, ...PROGRAM, 'doctor'], {
      env: { DATABASE_URL: target.url, XDG_STATE_HOME: path.join(folder, 'state'), HOME: folder },
    });
    for (const text of [said, planned, doctor.stdout])
      expect(text.replace(/\s+/g, ' ')).toMatch(/restricted by Landlock: .*open are Unix sockets.*UDP/);
  });

  test('--permit opens a port, on any host, but never the target’s', async () => {
    const { port } = new URL(target.url);
    const allow = ['--permit', `localhost.example:${port}`, '--', 'bash', '-c', INTRUDE];
    const { stdout } = await run([...ORDINARY, ...NO_NAMESPACES], ['--plan', ...allow]);
    expect(stdout.replace(/\s+/g, ' ')).toMatch(/watched .*landlock: it goes by port/);
  });
});

describe('where there is no Landlock either', () => {
  const before = [...ORDINARY, ...NO_NAMESPACES, ...NO_LANDLOCK];

  test.each([[[]], [['--plan']]])(
    'a command to which nothing names the target is not run: exit code 3 and what would do %s',
    async (flags) => {
      const command = ['--', 'touch', path.join(folder, 'ran')];
      const { exitCode, stderr } = await run(before, [...flags, '--url', target.url, ...command], {});
      const words = stderr.replace(/\s+/g, ' ');
      expect(words).toMatch(/nothing in its arguments, its environment and \.env names the target/);
      expect(words).toMatch(/landlock: landlock_create_ruleset: Operation not permitted/);
      for (const way of ['DATABASE_URL', '{safemigrate:url}', '{safemigrate:config FILE}', '--sandbox off'])
        expect(words).toContain(way);
      expect(exitCode).toBe(3);
      expect(existsSync(path.join(folder, 'ran'))).toBe(false);
    },
  );

  test.each([
    ['--sandbox off', ['--sandbox', 'off'], {}],
    ['a placeholder', [], { CONNECTION: '{safemigrate:url}' }],
    ['a variable', [], { DATABASE_URL: 'postgresql://elsewhere/db' }],
  ])('%s has it run', async (_, flags, env) => {
    const command = ['--', 'bash', '-c', 'touch ran; psql -X -q -c "CREATE TABLE made (id int)"'];
    const { exitCode, stderr } = await run(before, [...flags, '--url', target.url, ...command], env);
    expect(exitCode, stderr).toBe(0);
    expect(existsSync(path.join(folder, 'ran'))).toBe(true);
  });

  test('one that is led to the clone is watched, and the first lines of the report and doctor say so', async () => {
    const { exitCode, stderr } = await run(before, [
      '--',
      ...psqlCommand('-c', 'CREATE TABLE made (id int)'),
    ]);
    expect(exitCode, stderr).toBe(0);
    const first = stderr.slice(stderr.indexOf('PASSED')).split('\n').slice(0, 4).join(' ');
    expect(first.replace(/\s+/g, ' ')).toContain('The command was only watched, not sandboxed: bubblewrap: ');
    const doctor = await runProgram([...before, ...PROGRAM, 'doctor'], {
      env: { DATABASE_URL: target.url, XDG_STATE_HOME: path.join(folder, 'state'), HOME: folder },
    });
    expect(doctor.stdout.replace(/\s+/g, ' ')).toMatch(/can only be watched, .*is not run if nothing/);
  });
});

test.skipIf(skipReason(noLandlock))(
  'as root, the target’s Unix sockets are covered beside it, and the command sees the same else',
  async () => {
    const server = await ownServer(18);
    try {
      await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
      const url = withDatabase(server.url, 'shop');
      const socket = `${server.socketFolder}/.s.PGSQL.${server.port}`;
      const script = `psql -X "$DATABASE_URL" -c 'CREATE TABLE made (id int)'
      psql -X "$(cat own)" -c 'CREATE TABLE out (id int)' && echo got out
      env | grep -v -e ^PG -e ^DATABASE_URL -e ^SAFEMIGRATE | sort; pwd; exit 7`;
      writeFileSync(path.join(folder, 'own'), `${url}?host=${server.socketFolder}&port=${server.port}`);
      // Without these two programs nothing has a network of its own, but mounts are made all the same.
      const said = (how: string) =>
        run(hiding('bwrap', 'setpriv'), ['--verbose', '--sandbox', how, '--', 'bash', '-c', script], {
          DATABASE_URL: url,
        });
      const covered = await said('auto');
      expect(covered.stderr).toContain('Is the server running');
      expect(covered.stderr.replaceAll(/\s/g, '')).toContain(`hiddenfromit:${socket}`);
      expect(covered.stderr.replace(/\s+/g, ' ')).toContain('restricted by Landlock');
      expect(covered.stderr).toContain('failed with exit code 7');
      expect(covered.stdout).not.toContain('got out');
      const plain = await said('off');
      expect(plain.stdout).toContain('got out');
      expect(covered.stdout).toBe(plain.stdout.replace(/^CREATE TABLE\ngot out\n/m, ''));
    } finally {
      await server.stop();
    }
  },
);
