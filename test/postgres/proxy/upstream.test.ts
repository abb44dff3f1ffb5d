import { execFile } from 'node:child_process';
import { appendFile, chmod, chown, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../../src/local-server/embedded.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { withClient } from '../../helpers/database.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { withProxy } from '../../helpers/proxy.ts';

const run = promisify(execFile);
let server: Server;

/** A server of its own, on which each role must log in in another way. */
beforeAll(async () => {
  server = await ownServer(18, { settings: { password_encryption: 'scram-sha-256' } });
  await withClient(server.url, async (client) => {
    await client.query("create role by_scram superuser login password 'påss word'");
    await client.query("create role by_saslprep superuser login password U&'soft\\00ADhyphen'");
    await client.query("create role by_password superuser login password 'p'");
    await client.query('create role by_trust superuser login');
    await client.query("create role by_tls superuser login password 'p'");
    await client.query("set password_encryption = 'md5'; create role by_md5 superuser login password 'p'");
  });
  const data = join(server.folder, 'data');
  const { uid, gid } = await stat(data);
  const key = join(data, 'server.key');
  const certificate = join(data, 'server.crt');
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  await run('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-days',
    '1',
    '-keyout',
    key,
    '-out',
    certificate,
    ...subject,
  ]);
  await chmod(key, 0o600);
  for (const file of [key, certificate]) await chown(file, uid, gid);
  await chmod(certificate, 0o644);
  await writeFile(
    join(data, 'pg_hba.conf'),
    [
      'local all all trust',
      'host all by_scram 127.0.0.1/32 scram-sha-256',
      'host all by_saslprep 127.0.0.1/32 scram-sha-256',
      'host all by_password 127.0.0.1/32 password',
      'host all by_md5 127.0.0.1/32 md5',
      'host all by_trust 127.0.0.1/32 trust',
      'hostssl all by_tls 127.0.0.1/32 scram-sha-256',
      `host all ${server.user} 127.0.0.1/32 scram-sha-256`,
      '',
    ].join('\n'),
  );
  await appendFile(join(data, 'postgresql.conf'), 'ssl = on\n');
  await withClient(server.url, (client) => client.query('select pg_reload_conf()'));
}, 60_000);

afterAll(() => server?.stop());

test.each([
  ['by_scram', 'påss word', '?sslmode=disable'],
  // SASLprep drops the soft hyphen.
  ['by_saslprep', 'soft\u00adhyphen', '?sslmode=disable'],
  ['by_saslprep', 'softhyphen', '?sslmode=disable'],
  ['by_password', 'p', '?sslmode=disable'],
  ['by_md5', 'p', '?sslmode=disable'],
  ['by_trust', '', '?sslmode=disable'],
  ['by_tls', 'p', '?sslmode=require'],
  ['by_tls', 'p', '?sslmode=require&channel_binding=require'],
  ['by_tls', 'p', '?sslmode=require&channel_binding=disable'],
  ['by_tls', 'p', '?sslmode=verify-full&sslrootcert='],
])('logs in upstream as %s', async (user, password, parameters) => {
  const url = new URL(server.url);
  url.username = user;
  url.password = encodeURIComponent(password);
  url.hostname = '127.0.0.1';
  const root = parameters.endsWith('sslrootcert=')
    ? encodeURIComponent(join(server.folder, 'data', 'server.crt'))
    : '';
  await withProxy(`${url.href}${parameters}${root}`, {}, async ({ url: entry }) => {
    const direct = new URL(entry);
    direct.search = '';
    await withClient(direct.href, async (client) => {
      const { rows } = await client.query(
        'select current_user, ssl from pg_stat_ssl where pid = pg_backend_pid()',
      );
      expect(rows).toEqual([{ current_user: user, ssl: user === 'by_tls' }]);
    });
  });
});

test('logs in upstream over a Unix socket', async () => {
  const url = `postgresql://by_trust@/postgres?host=${encodeURIComponent(server.socketFolder)}&port=${server.port}`;
  const upstream = parseSettings(url, readEnvironment({}, '/'));
  await withProxy(
    server.url,
    { routes: [{ user: 'by_trust', database: 'known', upstream }] },
    async ({ url: entry }) => {
      const known = new URL(entry);
      known.username = 'by_trust';
      known.pathname = '/known';
      await withClient(known.href, async (client) => {
        const { rows } = await client.query('select current_database(), inet_client_addr()');
        expect(rows).toEqual([{ current_database: 'postgres', inet_client_addr: null }]);
      });
    },
  );
});

test('does not log in unbound where channel_binding=require', async () => {
  const url = new URL(server.url);
  url.username = 'by_password';
  url.password = 'p';
  url.search = '?sslmode=require&channel_binding=require';
  await withProxy(url.href, {}, async ({ url: entry }) => {
    const direct = new URL(entry);
    direct.search = '';
    await expect(withClient(direct.href, async () => {})).rejects.toThrow('channel_binding');
  });
});

test('tells the client of a password that the server does not accept, without telling the password', async () => {
  const url = new URL(server.url);
  url.username = 'by_scram';
  url.password = 'a wrong one';
  await withProxy(url.href, {}, async ({ url: entry }) => {
    const failure = await withClient(entry, async () => {}).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: '28P01' });
    expect(String(failure)).not.toContain('wrong');
  });
});
