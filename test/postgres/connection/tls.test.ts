import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSecureContext, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Server } from '../../../src/local-server/embedded.ts';
import { dial, openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { Authority, opensslObstacle } from '../../helpers/certificates.ts';
import { withClient } from '../../helpers/client.ts';
import { until } from '../../helpers/cutting.ts';
import { ownServer } from '../../helpers/own-server.ts';

const RULES = `
hostssl all tls_only all scram-sha-256
hostnossl all plain_only all scram-sha-256
hostssl all by_certificate all cert
hostssl all with_both all scram-sha-256 clientcert=verify-full
host all md5 all md5
host all nobody all reject
host all postgres all scram-sha-256
`;

describe.skipIf(opensslObstacle())('a server with TLS', () => {
  let server: Server;
  let ca: Authority;
  const path = (name: string) => join(server.folder, name);

  beforeAll(async () => {
    server = await ownServer(18);
    ca = new Authority(server.folder, 'ca');
    new Authority(server.folder, 'other');
    ca.sign('server', { name: 'localhost', extension: 'subjectAltName=DNS:localhost,DNS:db.test' });
    ca.sign('client', { name: 'by_certificate', extension: 'extendedKeyUsage=clientAuth' });
    ca.sign('encrypted', { name: 'by_certificate', password: 'of the key' });
    ca.sign('old', { name: 'by_certificate', days: -1 });
    ca.sign('somebody', { name: 'somebody' });
    new Authority(server.folder, 'foreign').sign('stranger', { name: 'by_certificate' });
    writeFileSync(path('empty.crt'), 'no certificate');
    writeFileSync(path('data/pg_hba.conf'), RULES);
    await withClient(server.url, async (client) => {
      for (const [name, file] of [
        ['ssl_cert_file', 'server.crt'],
        ['ssl_key_file', 'server.key'],
        ['ssl_ca_file', 'ca.crt'],
      ])
        await client.query(`ALTER SYSTEM SET ${name} = '${path(file ?? '')}'`);
      await client.query('ALTER SYSTEM SET ssl = on');
      for (const role of ['tls_only', 'plain_only', 'by_certificate', 'with_both', 'nobody'])
        await client.query(`CREATE ROLE ${role} LOGIN PASSWORD 'pw'`);
      await client.query(`SET password_encryption = md5; CREATE ROLE md5 LOGIN PASSWORD 'pw'`);
    });
    await server.restart();
  });

  afterAll(() => server.stop());

  afterEach(() => vi.unstubAllEnvs());

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
    else expect(result).toMatch(/is for another host .*IP: 127\.0\.0\.1/i);
  });

  test('another authority is not accepted, and prefer then goes on without TLS', async () => {
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

  test.each([
    ['of another role', 'somebody', '', 'certificate authentication failed'],
    [
      'that has expired',
      'old',
      '',
      'does not accept the client certificate (sslcert) (sslv3 alert certificate expired)',
    ],
    [
      'of another authority',
      'stranger',
      '',
      'does not accept the client certificate (sslcert) (tlsv1 alert unknown ca)',
    ],
    ['with an encrypted key', 'encrypted', '&sslpassword=of%20the%20key', 'tls'],
    ['with an encrypted key, without its password', 'encrypted', '', 'sslkey is encrypted'],
    ['with an encrypted key and a wrong password', 'encrypted', '&sslpassword=wrong', 'sslkey is encrypted'],
  ])("a client's certificate %s", async (_, name, more, expected) => {
    const files = `?sslmode=require&sslcert=${path(`${name}.crt`)}&sslkey=${path(`${name}.key`)}${more}`;
    // With TLS 1.3 the server may close before its alert is read: the connection is then reset.
    const found = await outcome('by_certificate', files);
    if (!found.includes('ECONNRESET')) expect(found).toContain(expected);
    else expect(found).toContain('cannot be connected to');
  });

  test('a wrong password that decrypts the key to what is no key (one of 256 does)', async () => {
    const key = readFileSync(path('encrypted.key'));
    const decryptsToNoKey = (passphrase: string) => {
      try {
        createSecureContext({ key, passphrase });
        return false;
      } catch (error) {
        return (error as { code?: string }).code !== 'ERR_OSSL_BAD_DECRYPT';
      }
    };
    const tries = Array.from({ length: 5000 }, (_, index) => `wrong${index}`);
    const password = tries.find(decryptsToNoKey);
    const files = `sslcert=${path('encrypted.crt')}&sslkey=${path('encrypted.key')}`;
    expect(await outcome('by_certificate', `?sslmode=require&${files}&sslpassword=${password}`)).toContain(
      'sslpassword does not decrypt it',
    );
  });

  test("a certificate and another's key, files that are none, and none at all", async () => {
    const files = (certificate: string, key: string, root = 'ca.crt') =>
      `?sslmode=require&sslcert=${path(certificate)}&sslkey=${path(key)}&sslrootcert=${path(root)}`;
    const failure = (...names: [string, string, string?]) => outcome('by_certificate', files(...names));
    expect(await failure('client.crt', 'server.key')).toContain('sslkey is not the key of the certificate');
    expect(await failure('empty.crt', 'client.key')).toContain('cannot be used');
    expect(await failure('client.crt', 'client.key', 'empty.crt')).toContain('holds no certificate');
    expect(await failure('client.crt', 'nowhere.key')).toContain('sslkey cannot be read');
  });

  test('a password and a certificate, bound to the channel: both are needed', async () => {
    ca.sign('with_both', { name: 'with_both' });
    const both = `&sslcert=${path('with_both.crt')}&sslkey=${path('with_both.key')}`;
    expect(await outcome('with_both', `?sslmode=require&channel_binding=require${both}`)).toBe('tls');
    expect(await outcome('with_both', '?sslmode=require')).toContain('valid client certificate');
    const wrong = { ...settings('with_both', `?sslmode=require${both}`), password: 'wrong' };
    await expect(openSession(wrong, { purpose: 'test' })).rejects.toMatchObject({ sqlstate: '28P01' });
  });

  test('sslrootcert=system trusts what OpenSSL trusts on this machine', async () => {
    vi.stubEnv('SSL_CERT_FILE', path('ca.crt'));
    expect(await outcome('tls_only', '?sslrootcert=system')).toBe('tls');
    vi.stubEnv('SSL_CERT_FILE', path('other.crt'));
    expect(await outcome('tls_only', '?sslrootcert=system')).toContain('not signed by an authority');
    expect(() => settings('tls_only', '?sslrootcert=system&sslmode=require')).toThrow('needs verify-full');
  });

  test('a certificate that its authority has revoked is not accepted', async () => {
    ca.revoke('server');
    const { certificate, folder } = ca;
    const verify = `?sslmode=verify-ca&sslrootcert=${certificate}`;
    for (const list of [`sslcrl=${folder}/ca.crl`, `sslcrldir=${folder}/revoked`])
      expect(await outcome('tls_only', `${verify}&${list}`)).toContain('certificate is revoked');
    expect(await outcome('tls_only', verify)).toBe('tls');
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

  describe('while its settings are others', () => {
    async function withSettings(settings: Record<string, string>, use: () => Promise<void>): Promise<void> {
      const set = (statements: string[]) =>
        withClient(server.url, async (client) => {
          for (const sql of statements) await client.query(sql);
          await client.query('SELECT pg_reload_conf()');
        });
      const before = await withClient(server.url, async (client) => {
        const names = Object.keys(settings);
        const { rows } = await client.query('SELECT name, setting FROM pg_settings WHERE name = ANY ($1)', [
          names,
        ]);
        return rows as { name: string; setting: string }[];
      });
      await set(Object.entries(settings).map(([name, value]) => `ALTER SYSTEM SET ${name} = '${value}'`));
      try {
        await use();
      } finally {
        await set(before.map(({ name, setting }) => `ALTER SYSTEM SET ${name} = '${setting}'`));
      }
    }

    const reaches = (query: string, expected: string) =>
      expect.poll(() => outcome('tls_only', `?sslmode=require&${query}`)).toContain(expected);

    test.each([
      ['TLSv1.2', 'TLSv1.3', 'ssl_min_protocol_version=TLSv1.3'],
      ['TLSv1.3', 'TLSv1.2', 'ssl_max_protocol_version=TLSv1.2'],
    ])('it speaks %s alone', async (version, other, refused) => {
      const only = { ssl_min_protocol_version: version, ssl_max_protocol_version: version };
      await withSettings(only, async () => {
        await reaches(refused, 'allows no version of TLS that the settings allow');
        await reaches(
          `ssl_max_protocol_version=${other}&ssl_min_protocol_version=TLSv1.2`,
          version < other ? 'tls' : 'allows no version',
        );
        await reaches(`ssl_min_protocol_version=${version}&ssl_max_protocol_version=${version}`, 'tls');
        await reaches('sslnegotiation=direct', 'tls');
        await reaches('channel_binding=require', 'tls');
      });
    });

    test.each([
      ['has expired', 'expired', -1, 'not valid at this time'],
      ['is valid', 'young', 2, 'tls'],
    ])('the authority of its certificate %s', async (_, name, days, expected) => {
      const authority = new Authority(server.folder, name, days);
      authority.sign(`${name}-server`, { name: 'localhost', extension: 'subjectAltName=DNS:localhost' });
      const files = {
        ssl_cert_file: path(`${name}-server.crt`),
        ssl_key_file: path(`${name}-server.key`),
      };
      await withSettings(files, () =>
        reaches(`sslmode=verify-full&sslrootcert=${authority.certificate}`, expected),
      );
    });

    test('without TLS it is refused, and why TLS failed is told where going on without it is refused, too', async () => {
      const other = `?sslmode=prefer&sslrootcert=${path('other.crt')}`;
      expect(await outcome('tls_only', other)).toMatch(
        /no pg_hba.conf entry[\s\S]*not signed by an authority/,
      );
      await withSettings({ ssl: 'off' }, () => reaches('application_name=x', 'does not offer TLS'));
    });
  });

  test('the log of the server knows no connection of ours without an end', () => {
    expect(readFileSync(path('log'), 'utf8')).not.toContain('unexpected EOF');
  });
});
