import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../../src/local-server/embedded.ts';
import { dial, openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { withClient } from '../../helpers/client.ts';
import { until } from '../../helpers/cutting.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { skipReason } from '../../helpers/requirements.ts';

function hasOpenssl(): boolean {
  try {
    execFileSync('openssl', ['version']);
    return true;
  } catch {
    return false;
  }
}

const RULES = `
hostssl all tls_only all scram-sha-256
hostnossl all plain_only all scram-sha-256
hostssl all by_certificate all cert
host all md5 all md5
host all nobody all reject
host all postgres all scram-sha-256
`;

describe.skipIf(skipReason(hasOpenssl() ? null : 'openssl is not installed'))('a server with TLS', () => {
  let server: Server;
  const path = (name: string) => join(server.folder, name);

  beforeAll(async () => {
    server = await ownServer(18);
    certificate('ca', ['-x509', '-subj', '/CN=test authority']);
    signed('server', '/CN=localhost', 'subjectAltName=DNS:localhost,DNS:db.test');
    signed('client', '/CN=by_certificate', 'extendedKeyUsage=clientAuth');
    writeFileSync(path('data/pg_hba.conf'), RULES);
    await withClient(server.url, async (client) => {
      for (const [name, file] of [
        ['ssl_cert_file', 'server.crt'],
        ['ssl_key_file', 'server.key'],
        ['ssl_ca_file', 'ca.crt'],
      ])
        await client.query(`ALTER SYSTEM SET ${name} = '${path(file ?? '')}'`);
      await client.query('ALTER SYSTEM SET ssl = on');
      for (const role of ['tls_only', 'plain_only', 'by_certificate', 'nobody'])
        await client.query(`CREATE ROLE ${role} LOGIN PASSWORD 'pw'`);
      await client.query(`SET password_encryption = md5; CREATE ROLE md5 LOGIN PASSWORD 'pw'`);
    });
    await server.restart();
  });

  afterAll(() => server.stop());

  function openssl(...args: string[]): void {
    execFileSync('openssl', args, { cwd: server.folder, stdio: 'ignore' });
  }

  function certificate(name: string, more: string[]): void {
    openssl(
      'req',
      '-new',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-days',
      '2',
      '-keyout',
      `${name}.key`,
      '-out',
      more[0] === '-x509' ? `${name}.crt` : `${name}.csr`,
      ...more,
    );
    // The server may run as another user, and refuses a key that is not its own.
    chmodSync(path(`${name}.key`), 0o600);
    const { uid, gid } = statSync(server.folder);
    chownSync(path(`${name}.key`), uid, gid);
  }

  function signed(name: string, subject: string, extension: string): void {
    certificate(name, ['-subj', subject]);
    writeFileSync(path(`${name}.ext`), extension);
    openssl(
      'x509',
      '-req',
      '-in',
      `${name}.csr`,
      '-CA',
      'ca.crt',
      '-CAkey',
      'ca.key',
      '-CAcreateserial',
      '-days',
      '2',
      '-extfile',
      `${name}.ext`,
      '-out',
      `${name}.crt`,
    );
  }

  const settings = (user: string, query: string, host = 'localhost') =>
    parseSettings(
      `postgresql://${user}:pw@${host}:${server.port}/postgres${query}`,
      readEnvironment({ HOME: '/nowhere' }, '.'),
    );

  /** `tls`, `plain`, or what the failure says. */
  const outcome = async (user: string, query = '', host?: string): Promise<string> => {
    try {
      const session = await openSession(settings(user, query, host), { purpose: 'test' });
      const [row] = await session.query<{ ssl: boolean }>(
        'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()',
      );
      await session.close();
      return row?.ssl ? 'tls' : 'plain';
    } catch (error) {
      return String(error);
    }
  };

  test.each([
    ['tls_only', '', 'tls'],
    ['plain_only', '', 'plain'],
    ['md5', '', 'tls'],
    ['tls_only', '?sslmode=disable', 'no pg_hba.conf entry'],
    ['tls_only', '?sslmode=allow', 'tls'],
    ['md5', '?sslmode=allow', 'plain'],
    ['plain_only', '?sslmode=allow', 'plain'],
    ['plain_only', '?sslmode=require', 'no pg_hba.conf entry'],
    ['md5', '?sslmode=require', 'tls'],
    ['tls_only', '?sslmode=require&channel_binding=require', 'tls'],
    ['md5', '?sslmode=require&channel_binding=require', 'channel binding'],
    ['tls_only', '?sslmode=require&sslnegotiation=direct', 'tls'],
    ['tls_only', '?sslmode=verify-full', 'there is none'],
    ['tls_only', '?sslrootcert=system', 'certificate'],
    ['nobody', '', 'rejects connection'],
  ])('as %s with %s: %s', async (user, query, expected) => {
    expect(await outcome(user, query)).toContain(expected);
  });

  test.each([
    ['verify-full', 'localhost', 'tls'],
    ['verify-full', '127.0.0.1', 'does not match'],
    ['verify-ca', '127.0.0.1', 'tls'],
    ['require', '127.0.0.1', 'tls'],
  ])('sslmode=%s to %s: %s', async (mode, host, expected) => {
    const result = await outcome('tls_only', `?sslmode=${mode}&sslrootcert=${path('ca.crt')}`, host);
    if (expected === 'tls') expect(result).toBe('tls');
    else expect(result).toMatch(/failed.*IP: 127\.0\.0\.1/i);
  });

  test('another authority is not accepted, and prefer then goes on without TLS', async () => {
    openssl(
      'req',
      '-new',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      'other.key',
      '-out',
      'other.crt',
      '-subj',
      '/CN=other',
      '-days',
      '2',
    );
    expect(await outcome('md5', `?sslmode=verify-ca&sslrootcert=${path('other.crt')}`)).toContain(
      'encrypted connection',
    );
    expect(await outcome('md5', `?sslmode=prefer&sslrootcert=${path('other.crt')}`)).toBe('plain');
  });

  test("a client's certificate is a login", async () => {
    const files = `?sslmode=require&sslcert=${path('client.crt')}&sslkey=${path('client.key')}`;
    expect(await outcome('by_certificate', files)).toBe('tls');
    expect(await outcome('by_certificate', '?sslmode=require')).toContain('certificate');
  });

  test('a wrong password is what is told, not the missing rule of the second rung', async () => {
    const wrong = { ...settings('tls_only', ''), password: 'wrong' };
    await expect(openSession(wrong, { purpose: 'test' })).rejects.toMatchObject({ sqlstate: '28P01' });
  });

  test('a socket is never encrypted', async () => {
    const url = `postgresql://md5:pw@/postgres?host=${server.socketFolder}&port=${server.port}&sslmode=require`;
    writeFileSync(path('data/pg_hba.conf'), `local all all scram-sha-256\nlocal all md5 md5\n${RULES}`);
    await withClient(server.url, (client) => client.query('SELECT pg_reload_conf()'));
    const local = parseSettings(
      url.replace('md5:pw', `postgres:${server.password}`),
      readEnvironment({}, '.'),
    );
    const session = await openSession(local, { purpose: 'test' });
    expect(session.address.host).toBe(server.socketFolder);
    await session.close();
  });

  test('a running query is cancelled over TLS too', async () => {
    const session = await openSession(settings('tls_only', '?sslmode=require'), { purpose: 'test' });
    const running = session.query('SELECT pg_sleep(60)');
    const assertion = expect(running).rejects.toMatchObject({ code: '57014' });
    // A cancel request that comes before the query does nothing.
    await withClient(server.url, (client) =>
      until('the query runs', async () => {
        const { rowCount } = await client.query(
          "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND state = 'active'",
        );
        return rowCount === 1;
      }),
    );
    await session.cancel();
    await assertion;
    await session.close();
  });

  test('a link is handed over before the login, encrypted', async () => {
    const result = await dial(
      settings('tls_only', '?sslmode=require'),
      async ({ socket, encrypted, user, password }) => {
        const certificate = (socket as TLSSocket).getPeerCertificate();
        socket.destroy();
        return { encrypted, user, password, subject: certificate.subject.CN };
      },
    );
    expect(result).toEqual({ encrypted: true, user: 'tls_only', password: 'pw', subject: 'localhost' });
  });

  test('the log of the server knows no connection of ours without an end', () => {
    expect(readFileSync(path('log'), 'utf8')).not.toContain('unexpected EOF');
  });
});
