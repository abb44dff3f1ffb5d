import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { apply } from '../helpers/apply.ts';
import { Authority, opensslObstacle } from '../helpers/certificates.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { psqlCommand, rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { digestOf, withDatabase } from '../helpers/target-state.ts';
import { toolchain } from '../helpers/toolchains.ts';

/** Its wheel has the libpq of PostgreSQL 18, which knows direct negotiation. */
const psycopg = await toolchain('psycopg-binary', '/', {
  pins: [],
  probe: ['python3', '-c', 'import venv, ensurepip'],
  needs: 'Python 3 with venv',
  install: [
    ['python3', '-m', 'venv', 'env'],
    ['env/bin/pip', 'install', '--quiet', 'psycopg[binary]==3.3.9'],
  ],
});

const RULES = `
hostssl all secure all scram-sha-256 clientcert=verify-full
hostssl all by_certificate all cert
host all postgres 127.0.0.1/32 scram-sha-256
`;
const SQL = 'ALTER TABLE jobs ADD COLUMN done bool';

/** Connects to where the run leads it, by a connection that the command writes itself. @param more parameters of libpq. */
const libpq = (more: string) => [
  'sh',
  '-c',
  `exec psql -X "host=$H port=$P user=secure password=$W dbname=shop ${more}" -c 'SELECT 1'`,
];
const PLACES = { H: '{safemigrate:host}', P: '{safemigrate:port}', W: '{safemigrate:password}' };

const PYTHON = `
import os, psycopg
with psycopg.connect(os.environ['DATABASE_URL'] + os.environ.get('MORE', '')) as connection:
    connection.execute('${SQL}')`;

describe.skipIf(opensslObstacle())('a target that demands TLS and a client certificate', () => {
  let server: Server;
  let authority: Authority;
  let before: Awaited<ReturnType<typeof digestOf>>;
  const file = (name: string) => path.join(server.folder, name);

  beforeAll(async () => {
    server = await ownServer(18);
    authority = new Authority(server.folder, 'ca');
    renewServer(authority);
    for (const name of ['secure', 'by_certificate'])
      authority.sign(name, { name, password: 'opens-the-key' });
    writeFileSync(file('data/pg_hba.conf'), RULES);
    await withClient(server.url, async (client) => {
      for (const [setting, name] of [
        ['ssl_cert_file', 'server.crt'],
        ['ssl_key_file', 'server.key'],
        ['ssl_ca_file', 'ca.crt'],
      ] as const)
        await client.query(`ALTER SYSTEM SET ${setting} = '${file(name)}'`);
      await client.query('ALTER SYSTEM SET ssl = on');
      for (const role of ['secure', 'by_certificate'])
        await client.query(`CREATE ROLE ${role} LOGIN SUPERUSER PASSWORD 'a-password'`);
      await client.query('CREATE DATABASE shop');
    });
    await withClient(withDatabase(server.url, 'shop'), (client) =>
      client.query('CREATE TABLE jobs (id int)'),
    );
    await server.restart();
    before = await digest();
  });

  afterAll(() => server.stop());

  const digest = () => digestOf(withDatabase(server.url, 'shop'));

  function renewServer(by: Authority): void {
    by.sign('server', { name: 'localhost', extension: 'subjectAltName=DNS:localhost' });
  }

  /** Reloads its files; new sessions see them at the latest when its own setting has changed. */
  async function reload(): Promise<void> {
    await withClient(server.url, (client) => client.query('SELECT pg_reload_conf()'));
    await expect
      .poll(() =>
        withClient(server.url, async (client) => {
          const { rows } = await client.query(
            "SELECT pg_conf_load_time() > now() - interval '1 minute' AS loaded",
          );
          return rows[0].loaded;
        }),
      )
      .toBe(true);
  }

  const parameters = (user: string): Record<string, string> => ({
    sslmode: 'verify-full',
    sslrootcert: file('ca.crt'),
    sslcert: file(`${user}.crt`),
    sslkey: file(`${user}.key`),
    sslpassword: 'opens-the-key',
    ...(user === 'secure' ? { channel_binding: 'require' } : {}),
  });

  const url = (user: string, more: Record<string, string> = {}, host = 'localhost') =>
    `postgresql://${user}:a-password@${host}:${server.port}/shop?${new URLSearchParams({ ...parameters(user), ...more })}`;

  test.each([
    ['psql', 'secure', 'template', psqlCommand('-c', SQL), {}],
    ['psql', 'by_certificate', 'cluster', psqlCommand('-c', SQL), {}],
    ['node-pg', 'secure', 'cluster', sqlCommand(SQL), { sslnegotiation: 'direct' }],
  ])('%s as %s is led to a clone of it: %s', async (_, user, clone, command, more) => {
    const { exitCode, report, stderr } = await rehearse(url(user, more), command, {
      args: ['--clone', clone],
    });
    expect(exitCode, stderr).toBe(0);
    expect(report.target.unchanged).toBe(true);
    expect(report.command.reachedClone).toBe(true);
    expect(JSON.stringify(report)).not.toContain('opens-the-key');
    expect(await digest()).toEqual(before);
  });

  test.skipIf(skipReason('missing' in psycopg ? psycopg.missing : null))(
    'psycopg as secure, with direct negotiation',
    async () => {
      const python = 'missing' in psycopg ? '' : path.join(psycopg.folder, 'env/bin/python');
      const { exitCode, report, stderr } = await rehearse(
        url('secure', { sslnegotiation: 'direct' }),
        [python, '-c', PYTHON],
        { args: ['--clone', 'cluster'] },
      );
      expect(exitCode, stderr).toBe(0);
      expect(report.schema?.changes).toHaveLength(1);
      const direct = await rehearse(url('secure'), [python, '-c', PYTHON], {
        env: { MORE: '&sslmode=require&sslnegotiation=direct' },
      });
      expect(direct.exitCode, direct.stderr).toBe(0);
      expect(direct.report.command).toMatchObject({ reachedClone: true, leftForTls: false });
    },
  );

  test('PG* variables and an argument name it: no password of the key is told', async () => {
    const { channel_binding, sslpassword, ...files } = parameters('secure');
    const names = { host: 'localhost', port: String(server.port), user: 'secure', dbname: 'shop' };
    const words = Object.entries({
      ...names,
      ...files,
      channel_binding,
      sslpassword,
      password: 'a-password',
    });
    const argument = words.map(([name, value]) => `${name}=${value}`).join(' ');
    const { exitCode, report, stderr } = await rehearse(url('secure'), ['psql', '-X', argument, '-c', SQL]);
    expect(exitCode, stderr).toBe(0);
    expect(report.command).toMatchObject({ byAddress: true, rewritten: [], untriedPasswords: [] });
    expect(JSON.stringify(report) + stderr).not.toContain('opens-the-key');
    // Variables have no place for the password of a key.
    authority.sign('open', { name: 'secure' });
    const variables = {
      PGHOST: 'localhost',
      PGPORT: String(server.port),
      PGUSER: 'secure',
      PGPASSWORD: 'a-password',
      PGDATABASE: 'shop',
      PGSSLMODE: 'verify-full',
      PGSSLROOTCERT: file('ca.crt'),
      PGSSLCERT: file('open.crt'),
      PGSSLKEY: file('open.key'),
      PGCHANNELBINDING: 'require',
      PGSSLMINPROTOCOLVERSION: 'TLSv1.3',
    };
    const run = await safemigrate(['--', 'psql', '-X', '-c', SQL], { env: variables });
    expect(run.exitCode, run.stderr).toBe(0);
  });

  test.each([
    ['another host', {}, '127.0.0.1', 3, /is for another host/],
    [
      'no certificate of the client',
      { sslcertmode: 'disable' },
      undefined,
      3,
      /valid client certificate \(SQLSTATE 28000\)/,
    ],
    [
      'a wrong password of the key',
      { sslpassword: 'does-not-open-it' },
      undefined,
      2,
      /sslpassword does not decrypt it/,
    ],
    [
      'no file of the authority',
      { sslrootcert: '/nowhere/ca.crt' },
      undefined,
      2,
      /sslrootcert cannot be read/,
    ],
    ['the authorities of the system', { sslrootcert: 'system' }, undefined, 3, /not signed by an authority/],
    [
      'a weak mode for those',
      { sslrootcert: 'system', sslmode: 'require' },
      undefined,
      2,
      /needs verify-full/,
    ],
    [
      'a version that does not exist',
      { ssl_min_protocol_version: 'TLSv1.9' },
      undefined,
      2,
      /not a version of TLS/,
    ],
  ])('%s: refused in words, before anything is touched', async (_, more, host, exitCode, words) => {
    for (const mode of [[], ['apply', '--yes']]) {
      const run = await safemigrate([...mode, '--', ...sqlCommand(SQL)], {
        env: { DATABASE_URL: url('secure', more, host) },
      });
      expect(run.stderr).toMatch(words);
      expect(run.stderr).not.toMatch(/opens-the-key|does-not-open-it/);
      expect(run.exitCode).toBe(exitCode);
    }
    expect(await digest()).toEqual(before);
  });

  test.each([
    ['sslmode=require', /server does not support SSL/, true],
    // psql asks for TLS, goes on without, and leaves at the login.
    ['channel_binding=require', /channel binding required, but SSL not in use/, false],
  ])('a command that demands %s of the proxy itself', async (more, words, leftForTls) => {
    // Only as long as an apply rewrites what names the target, its rehearsal does.
    const args = ['--receipt', path.join(temporaryFolder(), 'receipt.json')];
    const { exitCode, report, stderr } = await rehearse(url('secure'), libpq(more), { env: PLACES, args });
    expect(stderr).toMatch(words);
    expect(exitCode).toBe(1);
    expect(report.command).toMatchObject({ reachedClone: false, leftForTls });
    expect(report.verdict.reasons.join().includes('it demands TLS')).toBe(leftForTls);
    expect(report.target.unchanged).toBe(true);
  });

  test.each(['sslmode=require', 'channel_binding=require'])(
    'a command that demands %s has it at its address',
    async (more) => {
      const { exitCode, report, stderr } = await rehearse(url('secure'), libpq(more), { env: PLACES });
      expect(exitCode, stderr).toBe(0);
      expect(report.command).toMatchObject({ byAddress: true, reachedClone: true });
    },
  );

  describe('its certificate changes while the command runs', () => {
    const COMES_AGAIN = scriptCommand(`
      const first = await connect();
      await first.query('ALTER TABLE jobs ADD COLUMN first int');
      console.error('ready');
      await new Promise((resolve) => process.stdin.once('data', resolve));
      await first.query('ALTER TABLE jobs ADD COLUMN second int');
      const again = await connect();
      await again.query('ALTER TABLE jobs ADD COLUMN third int');
      await again.end();
      await first.end();
      process.exit(0);`);

    const changing = (by: () => Authority) => ({
      typed: [
        [
          /ready/,
          async () => {
            renewServer(by());
            await reload();
            return 'go\n';
          },
        ] as const,
      ],
    });

    test('renewed by the same authority: the command does not notice, in a rehearsal and an apply', async () => {
      const renewed = changing(() => authority);
      const { report, stderr } = await rehearse(url('secure'), COMES_AGAIN, renewed);
      expect(report.command.exitCode, stderr).toBe(0);
      // In its server a superuser's functions could have asked for that as well.
      expect(report.target.changes).toMatchObject([
        { what: 'the server read its configuration files again' },
      ]);
      const applied = await apply(url('secure'), COMES_AGAIN, {
        args: ['--clone', 'cluster'],
        typed: [[/ready/, 'go\n'], ...renewed.typed],
      });
      expect(applied.exitCode, applied.stderr).toBe(0);
      before = await digest();
    });

    test('by another authority: later sessions are refused, what is open goes on, and nothing is left', async () => {
      const other = new Authority(server.folder, 'other');
      const command = COMES_AGAIN.map((word) => word.replaceAll('COLUMN ', 'COLUMN other_'));
      const { exitCode, report, stderr } = await rehearse(
        url('secure'),
        command,
        changing(() => other),
      );
      expect(stderr).toMatch(/not signed by an authority in sslrootcert/);
      expect(exitCode).toBe(1);
      expect(report.statements.map(({ error }) => error)).toEqual([null, null]);
      // Dropping it needs a session anew.
      expect(report.cleanup.failed).toMatchObject([{ name: `clone ${report.clone.database}` }]);
      expect(await digest()).toEqual(before);
      renewServer(authority);
      await reload();
      const clean = await safemigrate(['clean'], { env: { DATABASE_URL: url('secure') } });
      expect(clean.exitCode, clean.stderr).toBe(0);
      const { rows } = await withClient(server.url, (client) =>
        client.query("SELECT datname FROM pg_database WHERE datname LIKE 'shop\\_%'"),
      );
      expect(rows).toEqual([]);
    });
  });
});
