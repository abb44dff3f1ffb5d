import { writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { hostname } from 'node:os';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Report } from '../../src/model/report.ts';
import { PROGRAM, runProgram, safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { withDatabase } from '../helpers/target-state.ts';

// Each makes several rehearsals.
vi.setConfig({ testTimeout: 120_000 });

let target: TemporaryDatabase;
let folder: string;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18, { sql: 'CREATE TABLE jobs (id int)' });
  folder = temporaryFolder();
});

afterEach(() => target.drop());

const attemptsOf = ({ command }: Report) =>
  (command.isolation.attempts ?? []).map(({ host, port, reason }) => `${host}:${port} ${reason}`);

/** In one line, since the screen is narrow. */
const flat = (text: string) => text.replaceAll(/\s+/g, ' ');

const MIGRATE = `
  const client = await connect();
  await client.query('CREATE TABLE made (id int)');
  await client.end();`;

describe('what a command tries to reach is named', () => {
  test('by the name and port that it used, by whatever it resolves names', async () => {
    const script = `
      const dns = await import('node:dns/promises');
      const tried = async (trying) => console.error('tried:', await trying.then(() => 'reached', (e) => e.cause?.code ?? e.code));
      await tried(fetch('https://api.doppler.com/v3'));
      await tried(fetch('http://10.1.2.3/'));
      await tried(fetch(process.env.CACHE_URL));
      await tried(dns.resolve4('asked.example'));
      await tried(dns.lookup('localhost'));
      await tried(dns.lookup((await import('node:os')).hostname()));
      process.exit(3);`;
    const { report, stderr, exitCode } = await rehearse(target.url, scriptCommand(script), {
      env: { CACHE_URL: 'http://cache.example:7777/0' },
    });
    expect(exitCode).toBe(1);
    expect(stderr.match(/tried: \w+/g)).toEqual([
      'tried: ECONNRESET',
      'tried: ENETUNREACH',
      'tried: ECONNRESET',
      'tried: reached',
      'tried: reached',
      'tried: reached',
    ]);
    expect(attemptsOf(report)).toEqual([
      'api.doppler.com:443 not-allowed',
      'cache.example:7777 not-allowed',
      'asked.example:null not-allowed',
    ]);
    expect(report.verdict.reasons[0]).toContain(
      'if that names api.doppler.com:443, cache.example:7777, asked.example, which the sandbox does not allow: ' +
        '--permit api.doppler.com:443 --permit cache.example:7777',
    );
  });

  test('on the first screen if the command failed, and with --verbose alone if it did not matter', async () => {
    const run = async (end: string, ...args: string[]) => {
      const command = scriptCommand(`await fetch('https://api.doppler.com/').catch(() => {}); ${end}`);
      const { stderr } = await safemigrate([...args, '--', ...command], {
        env: { DATABASE_URL: target.url },
      });
      return flat(stderr);
    };
    const failed = await run('process.exit(1)');
    expect(failed).toContain(
      'failed with exit code 1: its own output says why; if that names api.doppler.com:443',
    );
    expect(failed).toContain("permit: ['api.doppler.com:443'] in a config file");
    const afterwards = await run(`${MIGRATE} process.exit(1)`);
    expect(afterwards).toContain('none of its statements failed in the server');
    expect(afterwards).not.toContain('--permit');
    expect(await run(MIGRATE)).not.toContain('not allowed by the sandbox');
    expect(await run(MIGRATE, '--verbose')).toContain('not allowed by the sandbox: api.doppler.com:443');
  });

  test('the target itself, by psql, which is told why, as long as an apply rewrites what names it', async () => {
    const { hostname: host, port, username, password } = new URL(target.url);
    writeFileSync(
      path.join(folder, 'own'),
      `host=${host} port=${port} user=${username} password=${password}`,
    );
    const script = `psql -X "$(cat own) dbname=${target.name}" -c 'CREATE TABLE out (id int)'`;
    const { report, stderr } = await rehearse(target.url, ['sh', '-c', script], {
      folder,
      args: ['--receipt', 'receipt.json'],
    });
    expect(stderr).toContain(`does not let the command connect to ${host}:${port}`);
    expect(attemptsOf(report)).toEqual([`${host}:${port} target`]);
    expect(report.verdict.reasons[0]).toContain(`it tried to reach the target itself at ${host}:${port}`);
    expect(report.target.unchanged).toBe(true);
  });

  test('a service of this machine, and the command listens where it likes', async () => {
    const service = createServer((socket) => socket.end('hello'));
    await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', () => resolve()));
    const { port } = service.address() as AddressInfo;
    const script = `
      const net = await import('node:net');
      await new Promise((resolve) => net.connect(${port}, '127.0.0.1').on('error', resolve).on('close', resolve).resume());
      await new Promise((resolve, reject) => net.createServer().on('error', reject).listen(8080, function () { this.close(resolve); }));
      process.exit(4);`;
    try {
      const { report } = await rehearse(target.url, scriptCommand(script));
      expect(report.command.exitCode).toBe(4);
      expect(attemptsOf(report)).toEqual([`localhost:${port} not-allowed`]);
    } finally {
      service.close();
    }
  });

  test('in the sandbox of unshare as well', async () => {
    const hidden = ['bwrap', '--dev-bind', '/', '/', '--ro-bind', '/dev/null', '/usr/bin/bwrap', '--'];
    const command = scriptCommand(`await fetch('https://api.doppler.com/')`);
    const { stdout } = await runProgram(
      [...hidden, ...PROGRAM, '--clone', 'template', '--format', 'json', '--', ...command],
      { env: { DATABASE_URL: target.url } },
    );
    const report: Report = JSON.parse(stdout);
    expect(report.command.isolation.by).toBe('unshare');
    expect(attemptsOf(report)).toEqual(['api.doppler.com:443 not-allowed']);
  });
});

describe('--permit', () => {
  test('lets no client of PostgreSQL through, unless the place was allowed as one for them', async () => {
    const other = await ownServer(18);
    try {
      const own = new URL(withDatabase(other.url, 'postgres'));
      own.hostname = hostname();
      const command = scriptCommand(
        `try {
          const other = await connect(undefined, args[0]);
          console.error('other:', (await other.query('SELECT 7 AS seven')).rows[0].seven);
          await other.end();
        } catch (error) { console.error('other:', error.code ?? error.message); process.exit(5); }
        ${MIGRATE}`,
        own.href,
      );
      const place = `${hostname()}:${other.port}`;
      const run = (allowed: string) => rehearse(target.url, command, { args: ['--permit', allowed] });
      const plain = await run(place);
      expect(plain.stderr).toContain('other: ECONNRESET');
      expect(attemptsOf(plain.report)).toEqual([`${place} postgres`]);
      expect(plain.report.verdict.reasons[0]).toContain(`--permit postgres:${place}`);
      const allowed = await run(`postgres:${place}`);
      expect(allowed.stderr).toContain('other: 7');
      expect(allowed.report.command.isolation.allowed).toEqual([`postgres:${place}`]);
    } finally {
      await other.stop();
    }
  });

  test('never names the target, also not by another name for its address', async () => {
    const { port } = new URL(target.url);
    for (const name of [hostname(), 'localhost', '127.0.0.1'])
      for (const kind of ['', 'postgres:']) {
        const args = ['--permit', `${kind}${name}:${port}`, '--', 'true'];
        const { exitCode, stderr } = await safemigrate(args, { env: { DATABASE_URL: target.url } });
        expect(stderr, name).toContain('--permit names the target itself');
        expect(exitCode).toBe(2);
      }
  });
});

test('a client of a daemon is refused before anything is made', async () => {
  await withClient(target.url, (client) => client.query('CREATE TABLE seen (id int)'));
  const env = { DATABASE_URL: target.url };
  for (const command of [
    ['docker', 'compose', 'run', 'app', 'migrate'],
    ['sh', '-c', 'ssh host migrate'],
  ]) {
    const { exitCode, stderr } = await safemigrate(['--', ...command], { env });
    expect(flat(stderr)).toContain(' runs its programs ');
    expect(flat(stderr)).toContain('--sandbox off');
    expect(exitCode).toBe(2);
  }
});
