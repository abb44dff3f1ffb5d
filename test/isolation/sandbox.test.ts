import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createListener, type ListenOptions, type Server } from 'node:net';
import { hostname } from 'node:os';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { bubblewrapWords, unshareWords } from '../../src/command/sandbox/sandbox-words.ts';
import {
  inTerminal,
  noTerminal,
  PROGRAM,
  runProgram,
  safemigrate,
  sqlCommand,
  temporaryFolder,
} from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { clonesOf, withDatabase } from '../helpers/target-state.ts';

let target: TemporaryDatabase;
/** A folder with a file that holds the target's URL, which nothing rewrites. */
let folder: string;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18, { sql: 'CREATE TABLE jobs (id int)' });
  folder = temporaryFolder();
  writeFileSync(path.join(folder, 'url'), target.url);
});

afterEach(async () => {
  expect(await clonesOf(18, target.name)).toEqual([]);
  await target.drop();
});

const REQUIRED = ['--sandbox', 'required'];
const hardCoded = () => path.join(folder, 'url');

/** Connects to the clone by its variable, and then some times to the target's own address; prints what it found there. */
const INTRUDE = `
  const client = await connect();
  await client.query('CREATE TABLE made (id int)');
  await client.end();
  const url = (await import('node:fs')).readFileSync(args[0], 'utf8');
  for (let time = 0; time < 10; time++) {
    try {
      const own = await connect(undefined, url);
      await own.query('INSERT INTO jobs VALUES (1)');
      const { rows } = await own.query("SELECT FROM pg_class WHERE relname = 'made'");
      await own.end();
      console.error(rows.length === 1 ? 'came to the clone' : 'got out');
    } catch (error) { console.error('stopped:', error.code); }
  }`;

const rowsOf = (url: string) =>
  withClient(url, async (client) => (await client.query('SELECT * FROM jobs')).rowCount);

describe('--sandbox required', () => {
  test('leads to the clone whatever connects to the target', async () => {
    const command = scriptCommand(INTRUDE, hardCoded());
    const { report, exitCode, stderr } = await rehearse(target.url, command, { args: REQUIRED });
    expect(exitCode, stderr).toBe(0);
    expect(stderr.match(/came to the clone/g)).toHaveLength(10);
    expect(stderr).not.toContain('got out');
    expect(await rowsOf(target.url)).toBe(0);
    expect(report.command.isolation).toMatchObject({
      kind: 'sandboxed',
      by: 'bubblewrap',
      covered: [],
      allowed: [],
    });
    expect(report.targetConnections).toEqual([]);
  });

  test('also over Unix sockets, and over IPv6', async () => {
    const server = await ownServer(18);
    try {
      await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
      const url = new URL(withDatabase(server.url, 'shop'));
      const own = `host=${server.socketFolder} port=${server.port} user=postgres dbname=shop`;
      const script = `psql "$DATABASE_URL" -c 'CREATE TABLE made (id int)'
        while read -r own; do psql "$own" < /dev/null -c 'INSERT INTO made VALUES (7)'; done < own`;
      writeFileSync(path.join(folder, 'own'), `${own}\n${own.replace(server.socketFolder, '::1')}\n`);
      const { report, exitCode, stderr } = await rehearse(url.href, ['sh', '-c', script], {
        args: REQUIRED,
        folder,
      });
      expect(exitCode, stderr).toBe(0);
      expect(report.data?.tables).toMatchObject([{ relation: 'public.made', rowsAfter: 2 }]);
      const { rows } = await withClient(url.href, (client) =>
        client.query("SELECT FROM pg_class WHERE relname = 'made'"),
      );
      expect(rows).toEqual([]);
    } finally {
      await server.stop();
    }
  });

  test('also when the command is run again and undone', async () => {
    const psql = (sql: string) =>
      `psql -X "$DATABASE_URL" -c '${sql}'; psql -X "$(cat ${hardCoded()})" -c '${sql}' || true`;
    const { report, stderr } = await rehearse(
      target.url,
      ['sh', '-c', psql('CREATE TABLE IF NOT EXISTS made (id int)')],
      { args: [...REQUIRED, '--rerun', '--down', psql('DROP TABLE IF EXISTS made')] },
    );
    expect(stderr).not.toContain('sandbox of this rehearsal does not let');
    expect(report.rerun).toMatchObject({ reachedClone: true, passed: true });
    expect(report.down).toMatchObject({ reachedClone: true, passed: true });
  });

  test('changes nothing else of what the command sees: files, user, folder, variables, stdin, exit code', async () => {
    const script = `pwd; id; env | grep -v -e ^PG -e ^DATABASE_URL -e ^SAFEMIGRATE | sort; cat; ls -lA . ${folder}; umask; exit 7`;
    const seen = async (how: string) => {
      const args = ['--sandbox', how, '--', 'bash', '-c', script];
      return safemigrate(args, { env: { DATABASE_URL: target.url, A: 'b c' }, folder, input: 'typed\n' });
    };
    const [inside, outside] = [await seen('required'), await seen('off')];
    expect(outside.stdout).toContain('typed');
    expect(inside.stdout).toBe(outside.stdout);
    expect(inside.stderr).toContain('failed with exit code 7');
  });

  test('tells by which signal the command ended', async () => {
    const { report } = await rehearse(target.url, ['sh', '-c', 'kill -KILL $$'], { args: REQUIRED });
    expect(report.command).toMatchObject({ exitCode: null, signal: 'SIGKILL' });
  });

  test('ends what the command left running, and leaves nothing when it is killed', async () => {
    const alive = (pid: string) =>
      existsSync(`/proc/${pid}`) && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    /** As this machine counts: the ids inside are others. */
    const sleepers = (seconds: number) =>
      spawnSync('pgrep', ['-f', `^sleep ${seconds}$`], { encoding: 'utf8' })
        .stdout.split('\n')
        .filter(Boolean);
    const first = 70_000 + (process.pid % 10_000);
    await rehearse(
      target.url,
      ['sh', '-c', `setsid sleep ${first} < /dev/null > /dev/null 2>&1 & sleep 0.1`],
      { args: REQUIRED },
    );
    expect(sleepers(first)).toEqual([]);

    const second = first + 10_000;
    let tool = 0;
    const killed = safemigrate(
      [...REQUIRED, '--', 'sh', '-c', `setsid sleep ${second} & exec sleep ${second}`],
      {
        env: { DATABASE_URL: target.url },
        started: (pid) => {
          tool = pid;
        },
      },
    );
    const pids = await vi.waitFor(() => {
      const found = sleepers(second);
      expect(found).toHaveLength(2);
      return found;
    }, 60_000);
    process.kill(tool, 'SIGKILL');
    await killed;
    await vi.waitFor(() => expect(pids.filter(alive)).toEqual([]), 60_000);
    expect((await safemigrate(['clean'], { env: { DATABASE_URL: target.url } })).exitCode).toBe(0);
  });

  test.skipIf(noTerminal)('on a terminal Ctrl-C reaches the command, which ends as it likes', async () => {
    const script = `trap 'echo caught; exit 3' INT; tty; test -t 0 && echo ready; while :; do sleep 0.1; done`;
    const { output, exitCode } = await inTerminal([...REQUIRED, '--', 'bash', '-c', script], {
      env: { DATABASE_URL: target.url },
      typed: [[/ready/, '\x03']],
    });
    expect(output).toContain('/dev/pts/');
    expect(output).toContain('caught');
    expect(exitCode).toBe(130);
  });

  test('--permit connects to one place outside, by its name', async () => {
    const server = createServer((_, response) => response.end('a package'));
    await new Promise<void>((resolve) => server.listen(0, () => resolve()));
    const { port } = server.address() as AddressInfo;
    const hosts = ['localhost', hostname()];
    const script = `
      const client = await connect();
      await client.query('CREATE TABLE made (id int)');
      await client.end();
      for (const host of args) console.error(host, await fetch('http://' + host).then((r) => r.text(), () => 'nothing'));`;
    const command = scriptCommand(script, ...hosts.map((host) => `${host}:${port}`));
    try {
      const allowed = hosts.flatMap((host) => ['--permit', `${host}:${port}`]);
      const { report, stderr } = await rehearse(target.url, command, { args: [...REQUIRED, ...allowed] });
      for (const host of hosts) expect(stderr).toContain(`${host}:${port} a package`);
      expect(report.command.isolation.allowed).toEqual(hosts.map((host) => `${host}:${port}`));
      const none = await rehearse(target.url, command, { args: REQUIRED });
      expect(none.stderr).toContain(`localhost:${port} nothing`);
    } finally {
      server.close();
    }
  });

  test('--permit does not open the way to the target', async () => {
    const { host } = new URL(target.url);
    const args = [...REQUIRED, '--permit', host.replace('127.0.0.1', 'localhost'), '--', 'true'];
    const { exitCode, stderr } = await safemigrate(args, { env: { DATABASE_URL: target.url } });
    expect(stderr).toContain('--permit names the target itself');
    expect(exitCode).toBe(2);
  });
});

test('3,000 ports and as many Unix sockets of this machine are no obstacle, and none can be reached', async () => {
  const sockets = path.join(folder, 'sockets');
  mkdirSync(sockets);
  const servers: Server[] = [];
  const listen = async (where: ListenOptions) => {
    const server = createListener((socket) => socket.end('got out')).listen(where);
    servers.push(server);
    await once(server, 'listening');
  };
  try {
    for (let index = 0; index < 3000; index++) {
      await listen({ port: 0, host: '127.0.0.1' });
      await listen({ path: path.join(sockets, `${index}.sock`) });
    }
    const ports = servers.flatMap((server) => (server.address() as AddressInfo).port ?? []);
    const script = `const { connect: dial } = await import('node:net');
      for (const to of JSON.parse(args[0])) {
        await new Promise((done) => dial(to).on('data', console.error).on('error', done).on('end', done));
      }
      const { readdirSync, readFileSync } = await import('node:fs');
      const words = readdirSync('/proc').filter(Number).flatMap((pid) => readFileSync('/proc/' + pid + '/cmdline', 'utf8').split('\\0'));
      console.error('longest', Math.max(...words.map((word) => word.length)));
      await (await connect()).end();`;
    const tried = JSON.stringify([
      { port: ports[0] },
      { port: ports[2999] },
      path.join(sockets, '2999.sock'),
    ]);
    const { report, exitCode, stderr } = await rehearse(target.url, scriptCommand(script, tried));
    expect(exitCode, stderr).toBe(0);
    expect(report.command.isolation).toMatchObject({ kind: 'sandboxed', by: 'bubblewrap' });
    expect(stderr).not.toContain('got out');
    expect(Number(/longest (\d+)/.exec(stderr)?.[1])).toBeLessThan(4096);
  } finally {
    for (const server of servers) server.close();
  }
}, 120_000);

test.each([
  ['bubblewrap', bubblewrapWords],
  ['unshare', unshareWords],
] as const)('%s makes no folder again that was removed while the sandbox was made', async (_, words) => {
  const there = path.join(folder, 'a folder\\with \t signs\u{a0}é');
  const removed = path.join(folder, 'removed', 'socket');
  mkdirSync(there);
  writeFileSync(path.join(there, 'file'), '');
  const inside = (...covered: string[]) =>
    runProgram([
      ...(words({ covered, readOnly: [], hosts: null, addresses: [], replaced: [] }) ?? []),
      '/bin/sh',
      '-c',
      'cd "$0"; ls -A; echo end',
      there,
    ]);
  for (const covered of [[there], [removed, there], [there, removed]]) {
    const { stdout, stderr } = await inside(...covered);
    expect(stdout, stderr).toBe('end\n');
  }
  expect((await inside(path.join(there, 'file'))).stdout).toBe('file\nend\n');
  expect(existsSync(path.dirname(removed))).toBe(false);
});

describe('where bubblewrap is missing', () => {
  const hiding = (...programs: string[]) => [
    ...['bwrap', '--dev-bind', '/', '/'],
    ...programs.filter(existsSync).flatMap((program) => ['--ro-bind', '/dev/null', program]),
    ...['--', ...PROGRAM, '--clone', 'template', ...REQUIRED],
  ];

  test.each([
    ['unshare', []],
    ['unshare, and no program for the network is installed,', ['/usr/bin/ip', '/usr/sbin/ifconfig']],
  ])('%s makes the same sandbox', async (_, missing) => {
    const args = ['--format', 'json', '--', ...scriptCommand(INTRUDE, hardCoded())];
    const { exitCode, stdout, stderr } = await runProgram(
      [...hiding('/usr/bin/bwrap', ...missing), ...args],
      {
        env: { DATABASE_URL: target.url },
      },
    );
    expect(exitCode, stderr).toBe(0);
    expect(stderr.match(/came to the clone/g)).toHaveLength(10);
    expect(JSON.parse(stdout).command.isolation.by).toBe('unshare');
  });

  test('and where that is missing too, nothing is run that has to be sandboxed: exit code 3', async () => {
    const { exitCode, stderr } = await runProgram(
      [...hiding('/usr/bin/bwrap', '/usr/bin/unshare'), '--', 'touch', path.join(folder, 'ran')],
      { env: { DATABASE_URL: target.url } },
    );
    expect(stderr).toMatch(/cannot be sandboxed here: bubblewrap: .*; unshare: /);
    expect(stderr).toContain('Install bubblewrap');
    expect(exitCode).toBe(3);
    expect(existsSync(path.join(folder, 'ran'))).toBe(false);
  });
});

test.each([
  ['bubblewrap', []],
  ['unshare', ['bwrap']],
  ['landlock', ['bwrap', 'setpriv']],
])('root cannot write to the files of the target’s server: by %s', async (by, missing) => {
  const data = await withClient(
    target.url,
    async (client) => (await client.query('SHOW data_directory')).rows[0].data_directory as string,
  );
  const access = path.join(data, 'pg_hba.conf');
  const script = `psql -X -q "$DATABASE_URL" -c 'CREATE TABLE made (id int)'
    echo '# written' >> '${access}' && echo got out >&2
    mv '${access}' '${access}.old' 2>/dev/null && echo moved >&2; touch here`;
  const hidden = missing.flatMap((program) => ['--ro-bind', '/dev/null', `/usr/bin/${program}`]);
  const args = ['--clone', 'template', '--format', 'json', '--', 'sh', '-c', script];
  const { exitCode, stdout, stderr } = await runProgram(
    ['bwrap', '--dev-bind', '/', '/', ...hidden, '--', ...PROGRAM, ...args],
    { env: { DATABASE_URL: target.url }, folder },
  );
  expect(exitCode, stderr).toBe(0);
  expect(stderr).toContain('Read-only file system');
  expect(stderr).not.toMatch(/got out|moved/);
  expect(readFileSync(access, 'utf8')).not.toContain('# written');
  expect(existsSync(path.join(folder, 'here'))).toBe(true);
  expect(JSON.parse(stdout).command.isolation.by).toBe(by);
});

test.each(['bubblewrap', 'unshare'])('an ordinary user gets the sandbox by %s', async (by) => {
  const state = path.join(folder, 'state');
  mkdirSync(state, { mode: 0o777 });
  for (const each of [folder, state]) chmodSync(each, 0o777);
  const without =
    by === 'unshare'
      ? ['bwrap', '--dev-bind', '/', '/', '--ro-bind', '/dev/null', '/usr/bin/bwrap', '--']
      : [];
  const user = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
  const args = [
    '--clone',
    'template',
    ...REQUIRED,
    '--format',
    'json',
    '--',
    ...scriptCommand(INTRUDE, hardCoded()),
  ];
  const { exitCode, stdout, stderr } = await runProgram([...without, ...user, ...PROGRAM, ...args], {
    env: { DATABASE_URL: target.url, XDG_STATE_HOME: state, HOME: folder },
    folder,
  });
  expect(exitCode, stderr).toBe(0);
  expect(stderr.match(/came to the clone/g)).toHaveLength(10);
  const { isolation } = JSON.parse(stdout).command;
  expect(isolation.by).toBe(by);
  expect(isolation.attempts).toEqual([]);
  expect(await rowsOf(target.url)).toBe(0);
});

test('what --plan and doctor say of it', async () => {
  const env = { DATABASE_URL: target.url };
  const plan = await safemigrate(['--plan', ...REQUIRED, '--', ...sqlCommand('SELECT 1')], { env });
  expect(plan.stdout).toContain('sandboxed by bubblewrap');
  const doctor = await safemigrate(['doctor'], { env });
  expect(doctor.stdout).toContain('is sandboxed by bubblewrap');
});

test('a file in the working directory can require the sandbox, not take it away', async () => {
  const env = { DATABASE_URL: target.url };
  const file = path.join(folder, 'safemigrate.config.json');
  for (const [config, code] of [
    [{ sandbox: 'off' }, 2],
    [{ permit: ['a.example:1', 'postgres:b.example:1'] }, 2],
    [{ permit: '/run/docker.sock' }, 2],
    [{ sandbox: 'required', permit: 'a.example:1' }, 0],
  ] as const) {
    writeFileSync(file, JSON.stringify(config));
    const line = ['--verbose', '--', ...sqlCommand('CREATE TABLE made (id int)')];
    const { exitCode, stderr } = await safemigrate(line, { env, folder });
    expect(exitCode, stderr).toBe(code);
    if (code === 0) expect(stderr.replaceAll(/\s+/g, ' ')).toContain('--permit: a.example:1');
    else
      expect(stderr).toMatch(/cannot be (off|a.example:1,postgres:b.example:1|\/run\/docker.sock) in a file/);
  }
});
