import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { Authority, opensslObstacle } from '../helpers/certificates.ts';
import { PROGRAM, runProgram, safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { digestOf, withDatabase } from '../helpers/target-state.ts';

// Each test makes whole rehearsals.
vi.setConfig({ testTimeout: 120_000 });

const ORDINARY = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
const BARE = { PGHOST: '', PGPORT: '', PGUSER: '', PGPASSWORD: '', PGDATABASE: '' };

let server: Server;
let target: string;
let before: Awaited<ReturnType<typeof digestOf>>;

beforeAll(async () => {
  server = await ownServer(18);
  await withClient(server.url, async (client) => {
    await client.query('CREATE DATABASE shop');
    await client.query("CREATE ROLE app LOGIN PASSWORD 'of-app'");
    await client.query('CREATE ROLE closed NOLOGIN');
  });
  target = withDatabase(server.url, 'shop');
  await withClient(target, (client) => client.query('CREATE SCHEMA of_app AUTHORIZATION app'));
  before = await digestOf(target);
});

afterAll(() => server.stop());

/** Words for libpq that stand in no place where safemigrate looks. */
const conninfo = (parts: Readonly<Record<string, string | number>> = {}) => {
  const { hostname, port, username, password } = new URL(target);
  const all = { host: hostname, port, user: username, password, dbname: 'shop', ...parts };
  return Object.entries(all)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
};

/** A project whose only connection is in a file, and the command that reads it. */
function project(text: string, sql = 'CREATE TABLE made (id int)') {
  const folder = temporaryFolder();
  writeFileSync(path.join(folder, 'connection'), text);
  writeFileSync(path.join(folder, 'schema.sql'), sql);
  return {
    folder,
    command: ['sh', '-c', 'psql -X -q -v ON_ERROR_STOP=1 -d "$(cat connection)" -f schema.sql'],
  };
}

async function rehearseFrom(text: string, { sql, args = [] }: { sql?: string; args?: string[] } = {}) {
  const { folder, command } = project(text, sql);
  const run = await rehearse(target, command, { folder, args, env: BARE });
  expect(await digestOf(target)).toEqual(before);
  return run;
}

const createdIn = ({ report }: Awaited<ReturnType<typeof rehearse>>) =>
  report.schema?.changes.map(({ verb, object }) => `${verb} ${object}`);

describe.each(['cluster', 'template'])('a command reaches a clone by %s', (clone) => {
  const args = ['--clone', clone];

  test.each([
    ['its address', {}],
    ['the name of this machine’s loopback device', { host: 'localhost' }],
    ['IPv6', { host: '::1' }],
    ['the wildcard address', { host: '0.0.0.0' }],
  ])('at %s', async (_, parts) => {
    const run = await rehearseFrom(conninfo(parts), { args });
    expect(run.exitCode, run.stderr).toBe(0);
    expect(createdIn(run)).toEqual(['create public.made']);
    expect(run.report.command).toMatchObject({ byAddress: true, rewritten: [], undecided: [] });
    expect(run.report.command.isolation.attempts).toEqual([]);
  });

  test('at an address of the network device', async () => {
    const addresses = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
    const outer = addresses.find(({ internal, family }) => !internal && family === 'IPv4');
    const run = await rehearseFrom(conninfo({ host: outer?.address ?? '127.0.0.1' }), { args });
    expect(run.exitCode, run.stderr).toBe(0);
  });

  test('at its Unix socket', async () => {
    const run = await rehearseFrom(conninfo({ host: server.socketFolder }), { args });
    expect(run.exitCode, run.stderr).toBe(0);
    expect(createdIn(run)).toEqual(['create public.made']);
  });

  test('with the password of another role', async () => {
    const run = await rehearseFrom(conninfo({ user: 'app', password: 'of-app' }), {
      args,
      sql: 'CREATE TABLE of_app.made (id int)',
    });
    expect(run.exitCode, run.stderr).toBe(0);
    expect(createdIn(run)).toContain('create of_app.made');
    expect(run.report.command.untriedPasswords).toEqual(clone === 'cluster' ? ['app'] : []);
  });

  test('with a wrong password, and says that it was not tried', async () => {
    const run = await rehearseFrom(conninfo({ password: 'wrong' }), { args });
    expect(run.exitCode, run.stderr).toBe(0);
    expect(run.report.command.untriedPasswords).toEqual(['postgres']);
  });

  test('not as a role that cannot log in, nor in another database of the server', async () => {
    const closed = await rehearseFrom(conninfo({ user: 'closed' }), { args });
    expect(closed.exitCode).toBe(1);
    expect(closed.stderr).toMatch(/role "closed" is not permitted to log in|password authentication failed/);
    const other = await rehearseFrom(conninfo({ dbname: 'template1' }), { args });
    expect(other.exitCode).toBe(1);
    expect(other.stderr).toContain('database "template1" is not part of this rehearsal');
  });
});

test('the command sees its own arguments and variables', async () => {
  const script =
    'echo "$0 $1 $DATABASE_URL"; env | grep -c ^PG; psql -X -q "$1" -c "CREATE TABLE made (id int)"';
  const run = await safemigrate(['--', 'sh', '-c', script, 'name', target], {
    env: { DATABASE_URL: target },
    commandTellsPasswords: true,
  });
  expect(run.exitCode, run.stderr).toBe(0);
  expect(run.stdout).toBe(`name ${target} ${target}\n0\n`);
});

test('a query is cancelled there', async () => {
  const { folder } = project(conninfo());
  const script = `(psql -X -d "$(cat connection)" -c 'SELECT pg_sleep(600)' & sleep 1; kill -INT $!; wait $!) 2>&1
    psql -X -q -d "$(cat connection)" -c 'CREATE TABLE made (id int)'`;
  const run = await rehearse(target, ['bash', '-c', script], { folder, env: BARE });
  expect(run.stderr).toContain('canceling statement due to user request');
  expect(createdIn(run)).toEqual(['create public.made']);
});

test.each(['bubblewrap', 'unshare'])('an ordinary user reaches it by %s', async (by) => {
  const { folder, command } = project(conninfo({ host: 'localhost' }));
  const state = path.join(folder, 'state');
  mkdirSync(state);
  for (const each of [folder, state]) chmodSync(each, 0o777);
  const hidden =
    by === 'unshare'
      ? ['bwrap', '--dev-bind', '/', '/', '--ro-bind', '/dev/null', '/usr/bin/bwrap', '--']
      : [];
  const args = ['--clone', 'template', '--format', 'json', '--url', target, '--', ...command];
  const { exitCode, stdout, stderr } = await runProgram([...hidden, ...ORDINARY, ...PROGRAM, ...args], {
    folder,
    env: { XDG_STATE_HOME: state, HOME: folder },
  });
  expect(exitCode, stderr).toBe(0);
  const { command: ran } = readReport(stdout);
  expect(ran).toMatchObject({ byAddress: true, reachedClone: true });
  expect(ran.isolation.by).toBe(by);
  expect(await digestOf(target)).toEqual(before);
});

describe.skipIf(opensslObstacle())('of a target that speaks TLS', () => {
  let secure: Server;
  let authority: Authority;
  const file = (name: string) => path.join(secure.folder, name);

  beforeAll(async () => {
    secure = await ownServer(18);
    authority = new Authority(secure.folder, 'ca');
    authority.sign('server', { name: 'localhost', extension: 'subjectAltName=DNS:localhost' });
    await withClient(secure.url, async (client) => {
      for (const [setting, name] of [
        ['ssl_cert_file', 'server.crt'],
        ['ssl_key_file', 'server.key'],
      ] as const)
        await client.query(`ALTER SYSTEM SET ${setting} = '${file(name)}'`);
      await client.query('ALTER SYSTEM SET ssl = on');
      await client.query('CREATE DATABASE shop');
    });
    await secure.restart();
  });

  afterAll(() => secure.stop());

  const run = (parts: Readonly<Record<string, string | number>>, env: Record<string, string> = {}) => {
    const { username, password } = new URL(secure.url);
    const own = { host: 'localhost', port: secure.port, user: username, password };
    const { folder, command } = project(conninfo({ ...own, ...parts }));
    return rehearse(withDatabase(secure.url, 'shop'), command, { folder, env: { ...BARE, ...env } });
  };

  test.each([
    ['sslmode=prefer', {}],
    ['sslmode=require', { sslmode: 'require' }],
  ])('the clone is reached with %s', async (_, parts) => {
    const { exitCode, stderr, report } = await run(parts);
    expect(exitCode, stderr).toBe(0);
    expect(report.command).toMatchObject({ byAddress: true, reachedClone: true, leftForTls: false });
  });

  test('a file that names whom to trust is read with the authority of the run', async () => {
    const trusted = await run({ sslmode: 'verify-full' }, { PGSSLROOTCERT: file('ca.crt') });
    expect(trusted.exitCode, trusted.stderr).toBe(0);
    expect(readFileSync(file('ca.crt'), 'utf8').match(/BEGIN CERTIFICATE/g)).toHaveLength(1);
  });

  test('who trusts another authority leaves, and is advised', async () => {
    const other = new Authority(temporaryFolder(), 'other');
    const { exitCode, report } = await run({ sslmode: 'verify-full', sslrootcert: other.certificate });
    expect(exitCode).toBe(1);
    expect(report.command).toMatchObject({ reachedClone: false, leftForTrust: true });
    expect(report.verdict.reasons.join()).toContain('PGSSLROOTCERT, NODE_EXTRA_CA_CERTS, SSL_CERT_FILE');
  });

  test('a login is bound to the connection if a variable demands it', async () => {
    const bound = await run({}, { PGCHANNELBINDING: 'require' });
    expect(bound.exitCode, bound.stderr).toBe(0);
    expect(bound.report.command.untriedPasswords).toEqual([]);
    const wrong = await run({ password: 'wrong' }, { PGCHANNELBINDING: 'require' });
    expect(wrong.stderr).toContain('password authentication failed');
  });

  test('node-pg comes with TLS that it verifies by NODE_EXTRA_CA_CERTS, that it does not, and at once', async () => {
    const script = `const [connectionString, how] = args;
      const ssl = how === 'verified' ? true : { rejectUnauthorized: false };
      const client = new pg.Client({ connectionString, ssl, sslnegotiation: how === 'direct' ? 'direct' : 'postgres' });
      await client.connect();
      await client.query('CREATE TABLE made (id int)');
      await client.end();`;
    const url = new URL(withDatabase(secure.url, 'shop'));
    url.hostname = 'localhost';
    for (const [how, env] of [
      ['verified', { NODE_EXTRA_CA_CERTS: file('ca.crt') }],
      ['any', {}],
      ['direct', {}],
    ] as const) {
      const { exitCode, stderr } = await rehearse(url.href, scriptCommand(script, url.href, how), { env });
      expect(exitCode, stderr).toBe(0);
    }
  });
});
