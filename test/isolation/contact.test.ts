import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import path from 'node:path';
import { Client } from 'pg';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { PROGRAM, runProgram, safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import {
  rehearseWatched as rehearse,
  rehearse as rehearseSandboxed,
  scriptCommand,
} from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { clonesOf, digestOf, withDatabase } from '../helpers/target-state.ts';

let target: TemporaryDatabase;
/** A file with the target's URL: nobody rewrites that. */
let hardCoded: string;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18, { sql: 'CREATE TABLE jobs (id int)' });
  hardCoded = path.join(temporaryFolder(), 'url');
  writeFileSync(hardCoded, target.url);
});

afterEach(async () => {
  expect(await clonesOf(18, target.name)).toEqual([]);
  await target.drop();
});

const READ_URL = "const url = (await import('node:fs')).readFileSync(args[0], 'utf8');";
/** Connects past safemigrate, says when that ended, and would stay for ever. */
const STAY = `${READ_URL}
  const client = await connect(undefined, url);
  client.on('error', () => console.error('ended at', Date.now()));
  await client.query('SELECT 1');
  await new Promise(() => setInterval(() => {}, 1000));`;

/**
 * The watch looks every 100 ms. Its look may fall into the few milliseconds between a command's connecting and its first
 * statement, and then the session is ended before it has done what the test is about: the test is made again.
 */
const RACE = { retry: 4 } as const;

describe('a command that connects to the target past safemigrate', () => {
  test(
    'loses its session within 500 ms, is stopped, and is named: exit code 1 where nothing was changed',
    RACE,
    async () => {
      const before = await digestOf(target.url);
      const { report, exitCode, stderr } = await rehearse(target.url, scriptCommand(STAY, hardCoded));
      expect(exitCode).toBe(1);
      // connectedAt is the server's backend_start, by the clock of the same machine.
      const endedAt = Number(/ended at (\d+)/.exec(stderr)?.[1]);
      expect(endedAt - Date.parse(report.targetConnections[0]?.connectedAt ?? '')).toBeLessThan(500);
      expect(report.targetConnections).toMatchObject([
        {
          process: { pid: expect.any(Number), command: expect.stringContaining('run-script.mjs') },
          user: 'postgres',
          ended: true,
          query: 'SELECT 1',
        },
      ]);
      expect(report.target.changes).toEqual([]);
      expect(report.verdict.reasons[0]).toContain('run-script.mjs');
      expect(await digestOf(target.url)).toEqual(before);
    },
  );

  test('and that was faster has the exact change told: exit code 5', RACE, async () => {
    const { report, exitCode } = await rehearse(
      target.url,
      scriptCommand(STAY.replace('SELECT 1', 'ALTER TABLE jobs ADD COLUMN done bool'), hardCoded),
    );
    expect(exitCode).toBe(5);
    expect(report.target.changes).toEqual([
      {
        what: 'create column public.jobs.done',
        madeBy: 'command',
        evidence: expect.stringContaining('connected to the target'),
      },
    ]);
    expect(report.targetConnections).toMatchObject([
      { query: 'ALTER TABLE jobs ADD COLUMN done bool', ended: true },
    ]);
  });

  test('is found before it can commit what it does in a transaction', RACE, async () => {
    const body = `${READ_URL}
      const client = await connect(undefined, url);
      client.on('error', () => {});
      await client.query('BEGIN; DROP TABLE jobs; SELECT pg_sleep(20); COMMIT');`;
    const { report, exitCode } = await rehearse(target.url, scriptCommand(body, hardCoded));
    expect(exitCode).toBe(1);
    expect(report.targetConnections).toHaveLength(1);
    expect(report.target.changes).toEqual([]);
  });

  test('through a process that it started, itself worked on the clone, or both', RACE, async () => {
    const body = `
      const client = await connect();
      await client.query('CREATE TABLE notes (id int)');
      await client.end();
      const { spawn } = await import('node:child_process');
      const child = spawn('sh', ['-c', '"$0" "$@"; exit $?', process.execPath, process.argv[1], args[1], args[0]], { stdio: 'inherit' });
      await new Promise((resolve) => child.on('exit', resolve));`;
    const { report, exitCode } = await rehearse(target.url, scriptCommand(body, hardCoded, STAY));
    expect(exitCode).toBe(1);
    expect(report.command.reachedClone).toBe(true);
    expect(report.targetConnections).toMatchObject([{ ended: true }]);
  });
});

/** A session from this local port of the machine. */
async function connectFrom(url: string, localPort: number): Promise<Client> {
  const stream = () => {
    const socket = new Socket();
    const dial = socket.connect.bind(socket) as (options: object) => Socket;
    socket.connect = ((port: number, host: string) => dial({ port, host, localPort })) as Socket['connect'];
    return socket;
  };
  const client = new Client({ connectionString: url, stream });
  client.on('error', () => {});
  await client.connect();
  return client;
}

describe('sessions of somebody else', () => {
  test('that have the local port of one of the command in its sandbox are not taken for it', async () => {
    // Below those that Linux gives to connections, so that no other has it meanwhile.
    const localPort = randomInt(20_000, 30_000);
    const body = `
      const { connect: dial } = await import('node:net');
      const { hostname, port } = new URL(process.env.DATABASE_URL);
      const socket = dial({ host: hostname, port, localPort: ${localPort} });
      await new Promise((resolve) => socket.once('connect', resolve));
      console.error('dialled');
      await new Promise((resolve) => process.stdin.once('data', resolve));
      socket.destroy();
      const client = await connect();
      await client.query('CREATE TABLE notes (id int)');
      process.exit(0);`;
    let somebody: Client | undefined;
    const { report, exitCode, stderr } = await rehearseSandboxed(target.url, scriptCommand(body), {
      args: ['--clone', 'cluster', '--sandbox', 'required'],
      typed: [
        [
          /dialled/,
          async () => {
            somebody = await connectFrom(target.url, localPort);
            // The watch looks every 100 ms.
            await somebody.query('SELECT pg_sleep(1)');
            return 'go\n';
          },
        ],
      ],
    });
    expect(report.targetConnections).toEqual([]);
    expect(report.target.unchanged).toBe(true);
    expect(exitCode, stderr).toBe(0);
    expect((await somebody?.query('SELECT 1'))?.rowCount).toBe(1);
    await somebody?.end();
  });

  test('that come to the target while the command runs are never touched, whatever it does', async () => {
    const somebody = new Client(target.url);
    let lost = false;
    somebody.on('error', () => {
      lost = true;
    });
    try {
      const body = `console.error('waiting'); await new Promise((resolve) => process.stdin.once('data', resolve));${STAY}`;
      const { report, exitCode } = await rehearse(target.url, scriptCommand(body, hardCoded), {
        typed: [
          [
            /waiting/,
            async () => {
              await somebody.connect();
              await somebody.query('SELECT 1');
              return 'go\n';
            },
          ],
        ],
      });
      expect(exitCode).toBe(1);
      expect(report.targetConnections).toHaveLength(1);
      expect(lost).toBe(false);
      expect((await somebody.query('SELECT 2 AS two')).rows).toEqual([{ two: 2 }]);
    } finally {
      await somebody.end();
    }
  });
});

test('a session over a Unix socket is recognised by the peer of the socket', RACE, async () => {
  const server = await ownServer(18);
  try {
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    const url = withDatabase(server.url, 'shop');
    const socket = new URL(url);
    socket.searchParams.set('host', server.socketFolder);
    socket.searchParams.set('port', String(server.port));
    writeFileSync(hardCoded, socket.href);
    const somebody = new Client(socket.href);
    // If an attempt fails, the server ends with this session open.
    somebody.on('error', () => {});
    const { report, exitCode } = await rehearse(
      url,
      scriptCommand(
        `console.error('waiting');
      await new Promise((resolve) => process.stdin.once('data', resolve));${STAY}`,
        hardCoded,
      ),
      {
        typed: [
          [
            /waiting/,
            async () => {
              await somebody.connect();
              return 'go\n';
            },
          ],
        ],
      },
    );
    expect(exitCode).toBe(1);
    expect(report.targetConnections).toMatchObject([
      { process: { command: expect.stringContaining('run-script.mjs') }, query: 'SELECT 1', ended: true },
    ]);
    expect((await somebody.query('SELECT 2 AS two')).rows).toEqual([{ two: 2 }]);
    await somebody.end();
  } finally {
    await server.stop();
  }
});

describe('a process that the command has let go', () => {
  /** Starts this script by a process that ends at once, in a session of its own: init is its parent then. */
  const letGo = (wait: string) => `
    const { spawn } = await import('node:child_process');
    const between = spawn('sh', ['-c', 'setsid "$0" "$@" & exit 0', process.execPath, process.argv[1], args[1], args[0]], { stdio: 'ignore', detached: true });
    await new Promise((resolve) => between.on('exit', resolve));
    const client = await connect();
    await client.query('CREATE TABLE notes (id int)');
    await client.end();
    ${wait}`;
  const later = `await new Promise((resolve) => setTimeout(resolve, 300));${STAY}`;
  const forEver = letGo('await new Promise(() => setInterval(() => {}, 1000));');
  const withoutCgroup = ['bwrap', '--dev-bind', '/', '/', '--tmpfs', '/sys/fs/cgroup', '--'];

  test.each([
    ['by its cgroup', []],
    ['by its environment, where there is no cgroup', withoutCgroup],
  ])('is recognised %s, and ended with it', RACE, async (_, before) => {
    const args = [
      '--clone',
      'template',
      '--sandbox',
      'off',
      '--format',
      'json',
      '--',
      ...scriptCommand(forEver, hardCoded, later),
    ];
    const { stdout, exitCode } = await runProgram([...before, ...PROGRAM, ...args], {
      env: { DATABASE_URL: target.url },
    });
    const report = JSON.parse(stdout);
    expect(report.targetConnections).toMatchObject([{ query: 'SELECT 1', ended: true }]);
    expect(report.command.leftRunning).toEqual([]);
    expect(exitCode).toBe(1);
  });

  test('and that outlives it is named, and the target is not proved unchanged', async () => {
    const daemon = `setInterval(() => {}, 1000); setTimeout(() => process.exit(), 20_000)`;
    const { report, exitCode } = await rehearse(target.url, scriptCommand(letGo(''), hardCoded, daemon));
    const [left] = report.command.leftRunning;
    expect(left?.command).toContain('run-script.mjs');
    // It is as alive as it would be without safemigrate.
    process.kill(left?.pid ?? 0, 'SIGKILL');
    expect(exitCode).toBe(0);
    expect(report.target.unchanged).toBe(null);
    expect(report.caveats).toContainEqual({
      path: 'target.unchanged',
      kind: 'unmeasured',
      reason: expect.stringContaining(`(pid ${left?.pid})`),
    });
  });

  test('leaves no cgroup behind, also if the tool is killed', async () => {
    let tool = 0;
    const killed = safemigrate(
      [
        '--sandbox',
        'off',
        '--',
        ...scriptCommand(
          "console.error('runs', process.pid); setInterval(() => {}, 1000); await new Promise(() => {})",
        ),
      ],
      {
        env: { DATABASE_URL: target.url },
        started: (pid) => {
          tool = pid;
        },
        typed: [
          [
            /runs \d+/,
            async (printed) => {
              process.kill(tool, 'SIGKILL');
              process.kill(Number(/runs (\d+)/.exec(printed)?.[1]), 'SIGKILL');
              return '';
            },
          ],
        ],
      },
    );
    expect((await killed).signal).toBe('SIGKILL');
    const mine = () => cgroups().filter((name) => name.startsWith(`safemigrate-command-${tool}-`));
    expect(mine()).toHaveLength(1);
    await vi.waitFor(async () => {
      await safemigrate(['clean'], { env: { DATABASE_URL: target.url } });
      expect(mine()).toEqual([]);
    }, 60_000);
  });
});

/** Of the runs of this test file and of others at the moment. */
function cgroups(): string[] {
  const found = spawnSync('find', ['/sys/fs/cgroup', '-name', 'safemigrate-command-*'], { encoding: 'utf8' });
  return found.stdout
    .split('\n')
    .filter(Boolean)
    .map((file) => path.basename(file));
}
